
use redlock::RedLock;

struct OfRedlock {
    locks: RedLock,
    /// The token of the lock.
    taken: Vec<u8>,
}

const KEY: &[u8] = b"redlock-rs";

impl Steps for OfRedlock {
    fn new(addresses: &[String]) -> Self {
        let mut locks = RedLock::new(addresses.to_vec());
        locks.set_retry(1, 1);
        Self { locks, taken: Vec::new() }
    }

    fn take(&mut self) -> String {
        match self.locks.lock(KEY, 30_000) {
            Ok(Some(lock)) => {
                self.taken = lock.val;
                "`lock` gives the lock".to_owned()
            }
            Ok(None) => "`lock` returns None".to_owned(),
            Err(error) => format!("`lock` returns {:?}", error.kind()),
        }
    }

    fn extend(&mut self) -> String {
        "—".to_owned()
    }

    fn release(&mut self) -> String {
        let (resource, val) = (KEY.to_vec(), self.taken.clone());
        self.locks.unlock(&redlock::Lock { resource, val, validity_time: 0, lock_manager: &self.locks });
        "`unlock` returns ()".to_owned()
    }
}

fn main() {
    trial::<OfRedlock>("redlock-rs 2.0.0", "redlock-rs", 1);
    trial::<OfRedlock>("redlock-rs 2.0.0", "redlock-rs", 3);
}
