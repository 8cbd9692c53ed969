//! Who takes and who releases.

use crate::audit::code::Code;
use crate::audit::happening::{Draft, Happening, Scene};
use crate::audit::lock::Standing;
use crate::audit::step::Shape;

pub(super) fn see(scene: &mut Scene<'_>, happening: &Happening<'_>) {
    if let Happening::Acquired { .. } = happening {
        two_holders(scene);
    }
}

/// Somebody gets a lock while others still have every reason to believe that it is theirs.
fn two_holders(scene: &mut Scene<'_>) {
    if scene.lock.shape == Shape::Semaphore {
        return;
    }
    let Some((new, others)) = scene.lock.holds.split_last() else { return };
    if !new.is_certain {
        return;
    }
    let Some(other) = others.iter().find(|other| other.is_certain && !other.who.is(&new.who)) else { return };
    let mut evidence = vec![other.acquired.shows("took the lock"), new.acquired.shows("took the same lock")];
    let how = match &other.standing {
        Standing::Deleted(mark) => {
            evidence.push(mark.shows("deleted the lock while it was held"));
            format!(", because {} had deleted it", mark.actor())
        }
        Standing::Overwritten(mark) => {
            evidence.push(mark.shows("overwrote the lock while it was held"));
            format!(", because {} had overwritten it", mark.actor())
        }
        Standing::Flushed(mark) => {
            evidence.push(mark.shows("deleted all keys while the lock was held"));
            ", because all keys had been deleted".to_owned()
        }
        Standing::Held | Standing::Vanished => String::new(),
    };
    let key = String::from_utf8_lossy(&scene.lock.place.key).into_owned();
    let sentence = format!("{} and {} both held `{key}`{how}", other.who.actor(), new.who.actor());
    let culprit = match &other.standing {
        Standing::Deleted(mark) | Standing::Overwritten(mark) => mark.client,
        _ => new.who.client,
    };
    scene.tell(Draft { code: Code::TwoHolders, severity: None, sentence, evidence, culprit });
}
