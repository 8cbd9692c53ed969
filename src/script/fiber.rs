//! Fibers: requests that may run a script get a stack of their own, so that a long script can be suspended.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};

/// Address space; the system commits memory only for the pages in use. Lua's matcher recurses up to 20,000 times with
/// less than 300 bytes each. Everything else is bounded far below that.
const STACK: usize = 16 << 20;

/// A function that runs on its own stack, and can be suspended.
pub struct Fiber<R> {
    coroutine: Coroutine<(), (), R>,
}

/// A stack, to be reused by the next fiber.
pub struct FiberStack(DefaultStack);

impl FiberStack {
    pub fn new() -> std::io::Result<Self> {
        DefaultStack::new(STACK).map(Self)
    }
}

/// The handle with which a fiber suspends itself.
pub struct Yielder<'f>(&'f corosensei::Yielder<(), ()>);

impl Yielder<'_> {
    /// Returns control to the caller of [`Fiber::resume`], until the fiber is resumed again.
    pub fn suspend(&self) {
        self.0.suspend(());
    }
}

/// The state of a fiber after [`Fiber::resume`].
pub enum FiberState<R> {
    Paused(Fiber<R>),
    Ended(R, FiberStack),
}

impl<R: 'static> Fiber<R> {
    pub fn new(stack: FiberStack, run: impl FnOnce(&Yielder<'_>) -> R + 'static) -> Self {
        Self { coroutine: Coroutine::with_stack(stack.0, move |yielder, ()| run(&Yielder(yielder))) }
    }

    /// Runs the fiber until it suspends itself or ends.
    pub fn resume(mut self) -> FiberState<R> {
        match self.coroutine.resume(()) {
            CoroutineResult::Yield(()) => FiberState::Paused(self),
            CoroutineResult::Return(result) => FiberState::Ended(result, FiberStack(self.coroutine.into_stack())),
        }
    }
}
