//! The two services' binaries. `cargo run --bin demo` builds only the demo, and an old service would prove nothing about the new code.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::progress::say;

/// Where the services are.
#[derive(Debug)]
pub(crate) struct Binaries {
    pub(crate) orders: PathBuf,
    pub(crate) inventory: PathBuf,
}

/// Builds them with the profile and into the target folder of the demo itself.
pub(crate) fn build() -> anyhow::Result<Binaries> {
    say("building the services");
    let me = std::env::current_exe().context("where is this program?")?;
    // <target>/<profile>/demo
    let folder = me.parent().context("this program has no folder")?;
    let target = folder.parent().context("this program is not in a target folder")?;
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let built = Command::new(cargo)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["build", "--quiet", "--package", env!("CARGO_PKG_NAME"), "--profile", profile, "--target-dir"])
        .arg(target)
        .args(["--bin", "order-service", "--bin", "inventory-service"])
        .status()
        .context("running cargo")?;
    ensure!(built.success(), "the services do not build");
    let binary = |name: &str| Path::join(folder, format!("{name}{}", std::env::consts::EXE_SUFFIX));
    Ok(Binaries { orders: binary("order-service"), inventory: binary("inventory-service") })
}
