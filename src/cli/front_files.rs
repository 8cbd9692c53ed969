//! Journals of several fronts before one server: which files these are, and how they are put together.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::flags::Options;
use super::outputs::cannot;
use crate::base::duration::spell_duration;
use crate::base::error::plain;
use crate::base::text::counted;
use crate::commands;
use crate::insight::audit::{ClockOffset, MergedFronts, merged_fronts};
use crate::powers::{Item, RecordedLines};

/// How many lines of a file show which nodes its front stands before.
const MAX_PEEKED: usize = 10_000;

/// The files of several fronts, put together.
pub(super) struct FrontFiles {
    pub fronts: MergedFronts,
    /// The number of each line in its file, file by file.
    pub numbers: Vec<Vec<u64>>,
    /// The sequence number of the first entry of each file.
    pub firsts: Vec<Option<u64>>,
    /// What is known of the clocks, for people.
    pub notes: Vec<String>,
}

/// Whether the files are journals of fronts before one server: the user says so, or they name a node in common.
pub(super) fn are_of_one_server(options: &Options, files: &[PathBuf]) -> Result<bool, String> {
    if files.len() < 2 || options.same_server {
        return Ok(options.same_server && files.len() > 1);
    }
    let mut known: BTreeSet<String> = BTreeSet::new();
    for path in files.iter().filter(|path| path.as_os_str() != "-") {
        let nodes = nodes_in(path)?;
        if nodes.iter().any(|node| known.contains(node)) {
            return Ok(true);
        }
        known.extend(nodes);
    }
    Ok(false)
}

/// The nodes that the first lines of a file name. What is wrong with the file is said when it is read.
fn nodes_in(path: &Path) -> Result<BTreeSet<String>, String> {
    let items = RecordedLines::of(open(path)?).take(MAX_PEEKED);
    let node = |(_, item)| match item {
        Item::Command(entry) => entry.node,
        Item::Event(event) => event.node,
    };
    Ok(items.map_while(Result::ok).filter_map(node).collect())
}

/// Reads the files and puts them together.
pub(super) fn read(files: &[PathBuf], furthest: Option<Duration>) -> Result<FrontFiles, String> {
    let (mut journals, mut numbers, mut firsts) = (Vec::new(), Vec::new(), Vec::new());
    for path in files {
        let (mut items, mut lines) = (Vec::new(), Vec::new());
        for read in RecordedLines::of(open(path)?) {
            let (line, item) = read.map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => format!("{}: {error}", path.display()),
                _ => cannot("read", path, &plain(&error)),
            })?;
            lines.push(line);
            items.push(item);
        }
        firsts.push(items.first().map(super::audit_result::seq_of));
        numbers.push(lines);
        journals.push(items);
    }
    let furthest = furthest.and_then(|furthest| i64::try_from(furthest.as_micros()).ok());
    let fronts = merged_fronts(journals, &commands::table_of_every_profile(), furthest).map_err(|number| {
        format!(
            "{} is of another server than {}, or others change its keys, too: no difference of their clocks explains all \
             replies",
            files[number].display(),
            files[0].display()
        )
    })?;
    let notes = fronts.clocks.iter().zip(&files[1..]).map(|(offset, path)| note(*offset, path, &files[0])).collect();
    Ok(FrontFiles { fronts, numbers, firsts, notes })
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, String> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(path).map_err(|error| cannot("read", path, &plain(&error)))?;
    Ok(Box::new(BufReader::with_capacity(1 << 16, file)))
}

/// What is known of a front's clock.
fn note(offset: ClockOffset, path: &Path, first: &Path) -> String {
    let (path, first) = (path.display(), first.display());
    if !offset.is_known() {
        return format!(
            "{path}: it is not known to a second how far its clock is from that of {first}; nothing is said about keys that \
             clients of both have used (--clock-error)"
        );
    }
    let (middle, error) = offset.middle();
    let spelled = |micros: i64| spell_duration(Duration::from_micros(micros.unsigned_abs()));
    let relation = match middle {
        0 => "shows the same time as".to_owned(),
        1.. => format!("is {} behind", spelled(middle)),
        _ => format!("is {} ahead of", spelled(middle)),
    };
    let by = match offset.comparisons {
        0 => "as --clock-error says".to_owned(),
        count => format!("by {}", counted(count, "comparison")),
    };
    format!("{path}: its clock {relation} that of {first}, to within {}, {by}", spelled(error))
}
