//! A vhost of the test's own on the broker under test.

use crate::rabbitmqctl::Ctl;
use crate::{Wire, names};

/// The broker under test: `OUTBOX_TEST_AMQP`, else `AMQP_URL`, else the standard local port.
pub fn server_url() -> String {
    ["OUTBOX_TEST_AMQP", "AMQP_URL"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|url| !url.is_empty()))
        .unwrap_or_else(|| "amqp://guest:guest@127.0.0.1:5672/%2f".into())
}

/// A vhost that the tests of one hour share, and a connection to it: a vhost of one's own costs two runs of the control command, seconds of
/// work. Who uses it keeps to a namespace of his own and deletes what is in it; the sweep of [`TestVhost::new`] takes the vhost two hours later.
pub async fn shared_vhost() -> (String, Wire) {
    let server = url::Url::parse(&server_url()).expect("the broker's URL");
    let user = if server.username().is_empty() { "guest" } else { server.username() };
    let hour = names::STALE_AFTER.as_secs();
    let name = format!("{}{}_shared", names::PREFIX, (names::now() / hour + 1) * hour);
    let mut url = server.clone();
    url.set_path(&name);
    if let Ok(wire) = Wire::try_connect(url.as_str()).await {
        return (url.into(), wire);
    }
    // Another test may be at it too.
    let create = format!(
        r#"(catch rabbit_vhost:add(<<"{name}">>, <<"{user}">>)),
           ok = rabbit_auth_backend_internal:set_permissions(<<"{user}">>, <<"{name}">>, <<".*">>, <<".*">>, <<".*">>, <<"{user}">>)"#
    );
    Ctl::shared().eval(&create).await;
    let wire = Wire::connect(url.as_str()).await;
    (url.into(), wire)
}

/// A uniquely named vhost; deleted with everything in it when this value is dropped.
#[derive(Debug)]
pub struct TestVhost {
    name: String,
    url: String,
    ctl: Ctl,
    limited: Vec<String>,
}

impl TestVhost {
    /// A new, empty vhost on the broker under test; the URL's user may do everything in it.
    pub async fn new() -> Self {
        let server = url::Url::parse(&server_url()).expect("the broker's URL");
        let user = if server.username().is_empty() { "guest" } else { server.username() };
        let (name, ctl) = (names::unique(), Ctl::shared());
        // One call: create it, let the user in, and delete what killed runs left over an hour ago (another test may be at it too).
        let limit = names::now() - names::STALE_AFTER.as_secs();
        ctl.eval(&format!(
            r#"ok = rabbit_vhost:add(<<"{name}">>, <<"{user}">>),
               ok = rabbit_auth_backend_internal:set_permissions(<<"{user}">>, <<"{name}">>, <<".*">>, <<".*">>, <<".*">>, <<"{user}">>),
               [(catch rabbit_vhost:delete(V, <<"{user}">>)) || V <- rabbit_vhost:list_names(),
                   {{match, [Secs]}} <- [re:run(V, "^{prefix}([0-9]+)_", [{{capture, all_but_first, list}}])],
                   list_to_integer(Secs) < {limit}]"#,
            prefix = names::PREFIX,
        ))
        .await;
        let mut url = server;
        url.set_path(&name);
        Self { name, url: url.into(), ctl, limited: Vec::new() }
    }

    /// The vhost's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The vhost's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The broker's control command.
    pub fn ctl(&self) -> &Ctl {
        &self.ctl
    }

    /// A connection of the test's own to look at and fill queues.
    pub async fn wire(&self) -> Wire {
        Wire::connect(&self.url).await
    }

    /// The vhost's queues with the asked columns, such as `name messages arguments`, as JSON rows.
    pub async fn queues(&self, columns: &[&str]) -> Vec<serde_json::Value> {
        self.ctl.list(&[&["list_queues", "-p", &self.name], columns].concat()).await
    }

    /// The vhost's consumers as JSON rows (`queue_name`, `prefetch_count`, ..).
    pub async fn consumers(&self) -> Vec<serde_json::Value> {
        self.ctl.list(&["list_consumers", "-p", &self.name]).await
    }

    /// Closes every connection to this vhost, as an operator or a lost node does.
    pub async fn close_all_connections(&self) {
        self.ctl.run(&["close_all_connections", "--vhost", &self.name, "outbox-it closes it"]).await;
    }

    /// The URL of a new user with these permissions (patterns; `""` allows nothing). Deleted with the vhost.
    pub async fn limited_user(&mut self, configure: &str, write: &str, read: &str) -> String {
        let user = names::unique();
        self.ctl.run(&["add_user", &user, "limited-secret"]).await;
        self.limited.push(user.clone());
        self.set_permissions(&user, configure, write, read).await;
        let mut url = url::Url::parse(&self.url).unwrap();
        url.set_username(&user).and_then(|()| url.set_password(Some("limited-secret"))).unwrap();
        url.into()
    }

    /// Sets what a user may do here; the broker asks again at the next operation (its cache is per channel, for seconds).
    pub async fn set_permissions(&self, user: &str, configure: &str, write: &str, read: &str) {
        self.ctl.run(&["set_permissions", "-p", &self.name, user, configure, write, read]).await;
    }

    /// Takes all permissions of a user here.
    pub async fn clear_permissions(&self, user: &str) {
        self.ctl.run(&["clear_permissions", "-p", &self.name, user]).await;
    }
}

impl Drop for TestVhost {
    fn drop(&mut self) {
        let users = self
            .limited
            .iter()
            .map(|u| format!(r#", rabbit_auth_backend_internal:delete_user(<<"{u}">>, <<"outbox-it">>)"#));
        let users: String = users.collect();
        let erlang = format!(r#"begin rabbit_vhost:delete(<<"{}">>, <<"outbox-it">>){users} end."#, self.name);
        let _ = self.ctl.try_run(&["eval", &erlang]);
    }
}
