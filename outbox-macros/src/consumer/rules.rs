//! The rules of `consumer!`.

rules! {
    name_missing() = "`consumer!` needs the consumer's name: `name = \"inventory\"`";
}
