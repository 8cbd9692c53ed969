//! The pages that are made from the code say what the code says.

use std::fs;
use std::path::Path;

use redouble::internals::{all_commands, markdown};

#[test]
fn the_list_of_commands_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md");
    let page = markdown(all_commands());
    if std::env::var_os("REDOUBLE_WRITE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/commands.md is not what the command table says: run `make docs`");
}

#[test]
fn every_command_is_on_the_page() {
    let page = markdown(all_commands());
    for row in all_commands() {
        assert!(page.contains(&format!("\n### {}\n", row.name)), "{}", row.name);
        for subcommand in row.subcommands {
            assert!(page.contains(&format!("\n- `{} {}", row.name, subcommand.name)), "{}", subcommand.name);
        }
    }
}
