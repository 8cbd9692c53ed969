//! Stands in for a crate of redis-rs's workspace that is not published: runs an async test on tokio.

use proc_macro::{TokenStream, TokenTree};

/// `async fn name() { … }` becomes a test that blocks on the body; `async fn name(con: impl …) { … }` a test that calls
/// it with a connection of its own. Other arguments are the cases of another attribute.
#[proc_macro_attribute]
pub fn async_test(_: TokenStream, item: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = item.into_iter().collect();
    let at = tokens.iter().position(|token| token.to_string() == "async").expect("an async function");
    let text = |tokens: &[TokenTree]| tokens.iter().cloned().collect::<TokenStream>().to_string();
    let (attributes, name, arguments) = (text(&tokens[..at]), &tokens[at + 2], tokens[at + 3].to_string());
    let (result, body) = (text(&tokens[at + 4..tokens.len() - 1]), &tokens[tokens.len() - 1]);
    let test = if arguments.contains(':') && !arguments.contains("impl") { "" } else { "#[test]" };
    let function = if arguments.contains("impl") {
        format!(
            "fn {name}() {result} {{
                async fn run{arguments} {result} {body}
                let context = TestContext::new();
                block_on_all(async move {{ run(context.async_connection().await.unwrap()).await }}, RuntimeType::Tokio)
            }}"
        )
    } else {
        format!("fn {name}{arguments} {result} {{ block_on_all(async move {body}, RuntimeType::Tokio) }}")
    };
    format!("{attributes} {test} {function}").parse().expect("it parses")
}
