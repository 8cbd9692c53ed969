//! Work that takes long, on a thread of its own, while a task waits for its result.

use std::future::Future;

use tokio::sync::oneshot;

/// Begins some work. Its result comes later; `None` if the work has panicked. The error says that there is no thread for it.
pub fn in_background<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<impl Future<Output = Option<T>> + Send + 'static> {
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name(name.to_owned());
    // Whoever has asked may be gone by then.
    thread.spawn(move || drop(sender.send(work())))?;
    Ok(async move { receiver.await.ok() })
}

/// Frees something large, and nobody waits for that. Without a thread it is freed here.
pub fn free_beside<T: Send + 'static>(name: &str, large: T) {
    drop(in_background(name, move || drop(large)));
}
