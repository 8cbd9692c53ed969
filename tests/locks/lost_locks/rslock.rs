
use std::time::Duration;

use rslock::{Lock, LockManager};
use tokio::runtime::Runtime;

struct OfRslock {
    runtime: Runtime,
    manager: LockManager,
    lock: Option<Lock>,
}

const LIFE: Duration = Duration::from_secs(30);

impl Steps for OfRslock {
    fn new(addresses: &[String]) -> Self {
        let mut manager = LockManager::new(addresses.to_vec());
        manager.set_retry(1, Duration::from_millis(1));
        Self { runtime: Runtime::new().unwrap(), manager, lock: None }
    }

    fn take(&mut self) -> String {
        match self.runtime.block_on(self.manager.lock("rslock", LIFE)) {
            Ok(lock) => {
                self.lock = Some(lock);
                "`lock` gives the lock".to_owned()
            }
            Err(error) => format!("`lock` returns {error:?}"),
        }
    }

    fn extend(&mut self) -> String {
        let result = self.runtime.block_on(self.manager.extend(self.lock.as_ref().unwrap(), LIFE));
        result.map_or_else(|error| format!("`extend` returns {error:?}"), |_| "`extend` succeeds".to_owned())
    }

    fn release(&mut self) -> String {
        self.runtime.block_on(self.manager.unlock(self.lock.as_ref().unwrap()));
        "`unlock` returns ()".to_owned()
    }
}

fn main() {
    trial::<OfRslock>("rslock 0.7.3", "rslock", 1);
    trial::<OfRslock>("rslock 0.7.3", "rslock", 3);
}
