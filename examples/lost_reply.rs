//! The server takes the lock, but the reply is lost. What does the client do next?
//!
//! `cargo run --example lost_reply`

use redouble::{Fault, Pattern, Server, Verdict};

/// Takes a lock as most code does: an error counts as "not taken".
fn take(url: &str, token: &str) -> bool {
    let attempt = || -> redis::RedisResult<Option<String>> {
        let mut client = redis::Client::open(url)?.get_connection()?;
        redis::cmd("SET").arg("lock:job").arg(token).arg("NX").arg("PX").arg(30_000).query(&mut client)
    };
    matches!(attempt(), Ok(Some(_)))
}

pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().spawn()?;
    let mut test = redis::Client::open(server.url())?.get_connection()?;
    let holder = |test: &mut redis::Connection| redis::cmd("GET").arg("lock:job").query::<Option<String>>(test);

    let never_ran = server.fault(Fault::new("never-ran", Verdict::CloseBefore).of(Pattern::on("SET")))?;
    assert!(!take(&server.url(), "first"));
    assert_eq!(holder(&mut test)?, None);
    println!("close-before: the client saw an error, and the lock is free");
    drop(never_ran);

    let reply_lost = server.fault(Fault::new("reply-lost", Verdict::CloseAfter).of(Pattern::on("SET")).times(1))?;
    assert!(!take(&server.url(), "second"));
    assert_eq!(reply_lost.fired(), 1);
    assert_eq!(holder(&mut test)?.as_deref(), Some("second"));
    println!("close-after:  the client saw the same error, and the lock is its own");

    assert!(!take(&server.url(), "second"));
    println!("              when it tries again it meets itself, and waits until the lock expires");
    Ok(())
}
