//! Finds out which process is at the other end of a connection, while the journal is on.
//!
//! A process that was found before is looked up at once. The others are looked for by one thread for all servers of this process. A new
//! connection waits for the answer before it runs its first command, because a client that sends one command may have ended right behind
//! it; but not for long.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::base::clock::Clock;
use crate::base::process::{ProcessSearch, SearchScope};
use crate::base::sync::MutexExt;
use crate::clients::session::{Client, Signal};

/// How long a connection waits for the answer before it runs its first command. The answer takes less than a millisecond,
/// unless the machine has far too much to do.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// How many connections are looked up at once. Further ones stay unknown.
const MAX_WAITING: usize = 10_000;

/// Looks up the processes of clients.
#[derive(Default)]
pub struct Identification {
    /// The thread is started for the first client. `None` if processes cannot be found here.
    lookup: OnceLock<Option<Lookup>>,
    waiting: Arc<AtomicUsize>,
}

struct Lookup {
    search: Arc<Mutex<ProcessSearch>>,
    questions: Sender<Question>,
}

/// Becomes ready when a client's process is known, or will not be known soon.
pub type Identified = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Question {
    client: Weak<Client>,
    scope: SearchScope,
    /// Who waits for the answer.
    asker: Option<oneshot::Sender<()>>,
}

impl Identification {
    /// Looks up the process of a new client, which is to wait for the answer. `None` if there is nothing to wait for.
    pub fn of_new(&self, client: &Arc<Client>, scope: SearchScope) -> Option<Identified> {
        let (asker, answered) = oneshot::channel();
        self.ask(client, scope, Some(asker)).then(|| {
            let wait: Identified = Box::pin(async move {
                let (mut answered, mut is_over) = (answered, pin!(Clock::sleep(LONGEST_WAIT)));
                poll_fn(|cx| match Pin::new(&mut answered).poll(cx) {
                    Poll::Ready(_) => Poll::Ready(()),
                    Poll::Pending => is_over.as_mut().poll(cx),
                })
                .await;
            });
            wait
        })
    }

    /// Looks up the process of a client that has been there for some time. Its connection is signalled when it is known.
    pub fn of_present(&self, client: &Arc<Client>, scope: SearchScope) {
        self.ask(client, scope, None);
    }

    /// Whether the question was asked. The process of a new client may be known at once.
    fn ask(&self, client: &Arc<Client>, scope: SearchScope, asker: Option<oneshot::Sender<()>>) -> bool {
        if client.is_identified() || client.peer().endpoint().is_none() {
            return false;
        }
        let lookup = self.lookup.get_or_init(|| Lookup::start(Arc::clone(&self.waiting)));
        let Some(Lookup { search, questions }) = lookup else { return false };
        // The thread may be looking into all processes.
        if asker.is_some()
            && let (Ok(mut search), Some(endpoint)) = (search.try_lock(), client.peer().endpoint())
            && let Some(process) = search.find_known(endpoint, scope)
        {
            client.set_process(Some(process));
            return false;
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        questions.send(Question { client: Arc::downgrade(client), scope, asker }).is_ok()
    }
}

impl Lookup {
    /// Starts the thread, which ends with the last sender.
    fn start(waiting: Arc<AtomicUsize>) -> Option<Self> {
        let search = Arc::new(Mutex::new(ProcessSearch::new()?));
        let (questions, receiver) = mpsc::channel();
        let thread = std::thread::Builder::new().name("redouble-identify".into());
        let threads = Arc::clone(&search);
        thread.spawn(move || answer(&receiver, &waiting, &threads)).ok()?;
        Some(Self { search, questions })
    }
}

fn answer(questions: &Receiver<Question>, waiting: &AtomicUsize, search: &Mutex<ProcessSearch>) {
    for Question { client, scope, asker } in questions {
        waiting.fetch_sub(1, Ordering::Relaxed);
        let Some(client) = client.upgrade() else { continue };
        // It may have been asked for twice.
        if !client.is_identified() {
            let endpoint = client.peer().endpoint();
            client.set_process(endpoint.and_then(|endpoint| search.lock_ignoring_poison().find(endpoint, scope)));
        }
        let is_known = client.process().is_some();
        let is_in_time = asker.is_some_and(|asker| asker.send(()).is_ok());
        if is_known && !is_in_time {
            client.signal(Signal::Identified);
        }
    }
}
