//! Who takes and who releases.

use redouble::Code;

use super::story::{Pair, judge};

#[test]
fn the_famous_race_two_clients_delete_a_stale_lock_and_both_take_it() {
    judge(&Pair {
        code: Code::TwoHolders,
        wrong: "
            C3: SETNX lock.foo {s+10}
            close C3
            +20s
            C1: GET lock.foo
            C2: GET lock.foo
            C1: DEL lock.foo
            ! C1: SETNX lock.foo {s+10}
            ! C2: DEL lock.foo
            ! C2: SETNX lock.foo {s+10}
        ",
        right: "
            C3: SETNX lock.foo {s+10}
            +20s
            C1: GET lock.foo
            C2: GET lock.foo
            C1: GETSET lock.foo {s+10}
            C2: GETSET lock.foo {s+10}
            C1: DEL lock.foo
        ",
    });
}
