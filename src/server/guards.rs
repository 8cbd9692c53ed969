//! Faults and gates from Rust: the interface to REDOUBLE FAULT and REDOUBLE GATE, with guards that clean up.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;

use super::timeout::{Timeout, USUAL_TIMEOUT, with_runtime_hint};
use super::world::{World, refused};
use crate::base::clock::block_on_timeout;
use crate::base::error::Error;
use crate::clients::instance::NamedBy;
use crate::engine::Engine;
use crate::powers::{Fault, Gate, Pattern, Rule, Side};
use crate::spec::Group;

impl World {
    /// Arms a fault. Dropping the guard disarms it, and resumes the commands that it hangs.
    ///
    /// Fails if the name is taken, or if the pattern names an unknown command: a rule with a typing error would never
    /// fire, and the test would pass for the wrong reason.
    ///
    /// ```
    /// use redouble::{Fault, Pattern, Verdict};
    /// # fn main() -> Result<(), redouble::Error> {
    /// let server = redouble::Server::builder().spawn()?;
    /// let reply_lost = Fault::new("reply-lost", Verdict::CloseAfter).of(Pattern::on("SET").key("lock:*")).times(1);
    /// let reply_lost = server.fault(reply_lost)?;
    /// // ... your code takes a lock through server.url() ...
    /// # assert_eq!(reply_lost.fired(), 0);
    /// println!("{} of {} commands lost their reply", reply_lost.fired(), reply_lost.matched());
    /// # Ok(())
    /// # }
    /// ```
    pub fn fault(&self, fault: Fault) -> Result<FaultGuard, Error> {
        self.check_commands(&fault.pattern)?;
        let rule = self.engine().instance.add_fault(fault).map_err(Error::Refused)?;
        Ok(FaultGuard { engine: Arc::clone(self.engine()), rule })
    }

    /// Arms a gate: commands that match the pattern are held before they run. Dropping the guard removes the gate and
    /// releases the held commands. Fails like [`fault`](Self::fault).
    ///
    /// ```
    /// use redouble::Pattern;
    /// # fn main() -> Result<(), redouble::Error> {
    /// let server = redouble::Server::builder().spawn()?;
    /// let gate = server.gate("before-del", Pattern::on("DEL").client("C1"))?;
    /// // ... C1 comes to its DEL; then gate.wait_for(1)? returns, and gate.step()? lets it through ...
    /// let nobody = gate.wait_for_within(1, std::time::Duration::ZERO).unwrap_err();
    /// assert_eq!(nobody.to_string(), "gate 'before-del' holds 0 of 1 after 0ms: no command has come since it was put up");
    /// # Ok(())
    /// # }
    /// ```
    pub fn gate(&self, name: &str, pattern: Pattern) -> Result<GateGuard, Error> {
        self.put_up(name, pattern, Side::Before)
    }

    /// Like [`gate`](Self::gate), but commands run before they are held, and their replies are held back: their effects
    /// are visible to everyone except their own client.
    pub fn gate_after(&self, name: &str, pattern: Pattern) -> Result<GateGuard, Error> {
        self.put_up(name, pattern, Side::After)
    }

    fn put_up(&self, name: &str, pattern: Pattern, side: Side) -> Result<GateGuard, Error> {
        self.check_commands(&pattern)?;
        let gate = self.engine().instance.add_gate(name, pattern, side, None).map_err(Error::Refused)?;
        Ok(GateGuard { engine: Arc::clone(self.engine()), events: self.event_loop().clone(), gate })
    }

    /// The names of the faults that have not fired yet.
    pub fn unfired_faults(&self) -> Vec<String> {
        self.engine().instance.control.faults.unfired()
    }

    /// The names of the gates that no command has reached yet.
    pub fn unreached_gates(&self) -> Vec<String> {
        self.engine().instance.control.gates.unreached()
    }

    /// Saves all data and functions, at one instant, to a file that a server can load: a Redis snapshot if the name
    /// ends in `.rdb`, otherwise readable commands. See [`Builder::load`](crate::Builder::load).
    ///
    /// Fails if the file cannot be written.
    pub fn save(&self, path: impl AsRef<std::path::Path>) -> Result<(), Error> {
        self.engine().instance.save(path.as_ref(), NamedBy::Program).map_err(refused)
    }

    fn check_commands(&self, pattern: &Pattern) -> Result<(), Error> {
        let table = &self.engine().table;
        let is_known =
            |name: &str| table.find_full_original(name.as_bytes()).is_some_and(|row| row.group != Group::Control);
        match pattern.commands().iter().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(name) => Err(Error::Refused(format!("there is no command '{name}' that a pattern can mean"))),
        }
    }
}

/// An armed fault. Dropping it disarms the fault.
#[must_use = "the fault is disarmed when this is dropped"]
pub struct FaultGuard {
    engine: Arc<Engine>,
    rule: Arc<Rule>,
}

impl FaultGuard {
    /// The number of commands that matched so far.
    pub fn matched(&self) -> u64 {
        self.rule.matched()
    }

    /// The number of those that the fault affected.
    pub fn fired(&self) -> u64 {
        self.rule.fired()
    }

    /// The number of commands that the fault hangs now.
    pub fn hanging(&self) -> usize {
        self.rule.queue.parked_count()
    }
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        // The fault may have been removed by command, and its name used for another one.
        if self.engine.instance.remove_this_fault(&self.rule) {
            self.engine.settle_here();
        }
    }
}

/// An armed gate. Dropping it removes the gate.
#[must_use = "the gate is taken away when this is dropped"]
pub struct GateGuard {
    engine: Arc<Engine>,
    events: Handle,
    gate: Arc<Gate>,
}

impl GateGuard {
    /// Blocks the thread until at least `count` commands are held here. Fails after ten seconds of real time; the error
    /// lists the held ones.
    ///
    /// In an async test use [`wait_for_async`](Self::wait_for_async): on a current-thread runtime, such as that of
    /// `#[tokio::test]`, this blocks all other tasks, including those that are to reach the gate.
    pub fn wait_for(&self, count: usize) -> Result<(), Error> {
        self.wait_for_within(count, USUAL_TIMEOUT)
    }

    /// Like [`wait_for`](Self::wait_for), with a time-out in real time.
    pub fn wait_for_within(&self, count: usize, timeout: Duration) -> Result<(), Error> {
        let held = block_on_timeout(self.gate.queue.watch(count), timeout);
        let hint = if held.is_none() { with_runtime_hint } else { std::convert::identity };
        self.are_held(held, count, timeout).map_err(hint)
    }

    /// Like [`wait_for`](Self::wait_for), for async tests: other tasks run meanwhile, on any runtime.
    ///
    /// ```
    /// # use redouble::Pattern;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = redouble::Server::builder().spawn()?;
    /// # let client = redis::Client::open(server.url())?;
    /// let gate = server.gate("before-del", Pattern::on("DEL"))?;
    /// let mut connection = client.get_multiplexed_async_connection().await?;
    /// let release = tokio::spawn(async move { redis::cmd("DEL").arg("lock").exec_async(&mut connection).await });
    /// gate.wait_for_async(1).await?;
    /// gate.step()?;
    /// release.await??;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait_for_async(&self, count: usize) -> Result<(), Error> {
        self.wait_for_within_async(count, USUAL_TIMEOUT).await
    }

    /// Like [`wait_for_async`](Self::wait_for_async), with a time-out in real time.
    pub async fn wait_for_within_async(&self, count: usize, timeout: Duration) -> Result<(), Error> {
        let (mut watch, mut time) = (pin!(self.gate.queue.watch(count)), Timeout::start(&self.events, timeout));
        let held = poll_fn(|cx| match watch.as_mut().poll(cx) {
            Poll::Ready(held) => Poll::Ready(Some(held)),
            Poll::Pending => Pin::new(&mut time).poll(cx).map(|()| None),
        })
        .await;
        self.are_held(held, count, timeout)
    }

    /// The result of a wait: `None` after its time-out, `Some(None)` if the gate is open.
    fn are_held(&self, held: Option<Option<usize>>, count: usize, timeout: Duration) -> Result<(), Error> {
        match held {
            Some(Some(_)) => Ok(()),
            Some(None) => Err(Error::Refused(format!("gate '{}' is open: it holds nobody", self.gate.name))),
            None => {
                let gates = &self.engine.instance.control.gates;
                Err(Error::Refused(gates.timeout_message(&self.gate, count, timeout)))
            }
        }
    }

    /// Releases the command that arrived first. On return its reply is written, or it is held or blocked elsewhere.
    /// Fails if no command is held here.
    pub fn step(&self) -> Result<(), Error> {
        if self.gate.queue.release_next(&self.engine.instance.clock).is_none() {
            return Err(Error::Refused(format!("nobody is held at gate '{}'", self.gate.name)));
        }
        self.engine.settle_here();
        Ok(())
    }

    /// Releases all held commands, one after another, and holds no further ones. On return each of them is complete, as
    /// after [`step`](Self::step). Returns how many were held.
    pub fn open(&self) -> usize {
        let held = self.gate.queue.parked_count();
        self.engine.instance.control.gates.queue_opening(&self.gate);
        self.engine.open_gates_here();
        held
    }

    /// The number of commands that are held here now.
    pub fn held(&self) -> usize {
        self.gate.queue.parked_count()
    }

    /// The number of commands that have arrived so far.
    pub fn arrived(&self) -> u64 {
        self.gate.queue.arrived()
    }
}

impl Drop for GateGuard {
    fn drop(&mut self) {
        if self.engine.instance.remove_this_gate(&self.gate) {
            self.engine.open_gates_here();
        }
    }
}
