//! A stack of its own for whatever may run a script, so that a script that does not end can be put aside.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};

/// Address space, of which the system gives memory only to what is used. Lua's matcher recurses up to 20,000 times with
/// less than 300 bytes each; everything else in it is bounded far below that.
const STACK: usize = 16 << 20;

/// Something that runs on its own stack, and can pause.
pub struct Fiber<R> {
    coroutine: Coroutine<(), (), R>,
}

/// A stack that can be used again.
pub struct FiberStack(DefaultStack);

impl FiberStack {
    pub fn new() -> std::io::Result<Self> {
        DefaultStack::new(STACK).map(Self)
    }
}

/// What a fiber pauses itself with.
pub struct Yielder<'f>(&'f corosensei::Yielder<(), ()>);

impl Yielder<'_> {
    /// Gives control back to whoever resumed the fiber, until it is resumed again.
    pub fn suspend(&self) {
        self.0.suspend(());
    }
}

/// Where a fiber stands.
pub enum FiberState<R> {
    Paused(Fiber<R>),
    Ended(R, FiberStack),
}

impl<R: 'static> Fiber<R> {
    pub fn new(stack: FiberStack, run: impl FnOnce(&Yielder<'_>) -> R + 'static) -> Self {
        Self { coroutine: Coroutine::with_stack(stack.0, move |yielder, ()| run(&Yielder(yielder))) }
    }

    /// Runs it until it pauses or ends.
    pub fn resume(mut self) -> FiberState<R> {
        match self.coroutine.resume(()) {
            CoroutineResult::Yield(()) => FiberState::Paused(self),
            CoroutineResult::Return(result) => FiberState::Ended(result, FiberStack(self.coroutine.into_stack())),
        }
    }
}
