//! A place outside the repository with nothing in it but the files to try.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The beginnings of the names of programs that build others. No user of a package needs one.
const COMPILERS: &[&str] = &[
    "as",
    "c++",
    "c89",
    "c99",
    "cargo",
    "cc",
    "clang",
    "cmake",
    "cpp",
    "g++",
    "gcc",
    "gmake",
    "go",
    "ld",
    "make",
    "maturin",
    "ninja",
    "pyenv",
    "rustc",
    "rustup",
    "tcc",
    "x86_64-linux-gnu-",
    "zig",
];

pub struct Environment {
    folder: PathBuf,
    /// Whether the repository can be hidden from programs.
    hides: bool,
    /// The Python that stories are told with.
    python: PathBuf,
}

impl Environment {
    pub fn new() -> Result<Self, String> {
        let built = built();
        if !built.join("SHA256SUMS").is_file() {
            return Err(format!("there are no packages in {}: `make packages` builds them", built.display()));
        }
        let folder = std::env::temp_dir().join(format!("redouble-packages-{}", std::process::id()));
        let said = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(said)?;
        copy(&built, &folder.join("files"))?;
        let python = interpreter()?;
        let environment = Self { hides: can_hide(), folder: folder.clone(), python };
        environment.link_programs().map_err(said)?;
        if !environment.hides {
            println!("mounting is not allowed here, so programs could see the repository");
        }
        Ok(environment)
    }

    /// The folder with copies of the built files.
    pub fn files(&self) -> PathBuf {
        self.folder.join("files")
    }

    /// The path of the built file whose name has this beginning and this end.
    pub fn file(&self, beginning: &str, end: &str) -> Result<PathBuf, String> {
        let entries = fs::read_dir(self.files()).map_err(|error| error.to_string())?;
        let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let found = paths.find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(beginning) && name.ends_with(end)
        });
        found.ok_or_else(|| format!("`make packages` built no {beginning}…{end}"))
    }

    /// The binary, unpacked from its archive, beside what else that holds.
    pub fn binary(&self) -> Result<PathBuf, String> {
        let archive = self.file("redouble-", ".tar.gz")?;
        let name = archive.file_name().unwrap_or_default().to_string_lossy();
        let folder = self.empty("archive")?;
        let binary = folder.join(name.trim_end_matches(".tar.gz")).join("redouble");
        if !binary.exists() {
            run(Command::new("tar").arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(&folder))?;
        }
        Ok(binary)
    }

    /// Makes an empty folder.
    pub fn empty(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder)
    }

    /// Copies a folder of the repository to where it is still seen when the repository is hidden.
    pub fn bring(&self, source: &Path, name: &str) -> Result<PathBuf, String> {
        let brought = self.folder.join(name);
        copy(source, &brought)?;
        Ok(brought)
    }

    /// A command that root alone may give; others get a namespace in which they are root.
    pub fn as_root(program: &str) -> Command {
        if is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", program]);
        command
    }

    /// A command of a Python script that sees neither the repository nor a compiler.
    pub fn python(&self, script: &Path) -> Command {
        let mut command = if self.hides { hiding() } else { Command::new("env") };
        command.arg(&self.python).arg(script);
        command.env_clear();
        for kept in ["HOME", "LANG", "TMPDIR", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "npm_config_registry"] {
            command.envs(std::env::var_os(kept).map(|value| (kept, value)));
        }
        command.env("PATH", self.folder.join("bin")).stdin(Stdio::null()).current_dir(&self.folder);
        command
    }

    /// Fills a folder for PATH with links to all programs but compilers.
    fn link_programs(&self) -> std::io::Result<()> {
        let bin = self.folder.join("bin");
        fs::create_dir_all(&bin)?;
        symlink(&self.python, bin.join("python3"))?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        for folder in std::env::split_paths(&path).filter(|folder| !folder.ends_with("shims")) {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let text = name.to_string_lossy();
                if !COMPILERS.iter().any(|compiler| is_version_of(&text, compiler)) && !bin.join(&name).exists() {
                    let _ = fs::remove_file(bin.join(&name));
                    symlink(entry.path(), bin.join(&name))?;
                }
            }
        }
        Ok(())
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The folder that `make packages` builds into.
fn built() -> PathBuf {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    temporary.parent().expect("it is a folder of the build folder").join("packages")
}

/// Whether a program is this one, or this one of some version: `gcc`, `gcc-12`, `clang++`.
fn is_version_of(name: &str, program: &str) -> bool {
    let rest = name.strip_prefix(program);
    rest.is_some_and(|rest| program.ends_with('-') || !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

/// The interpreter itself: the program in PATH may be a script that chooses one.
fn interpreter() -> Result<PathBuf, String> {
    let mut python = Command::new("python3");
    let output = python.args(["-c", "import sys; print(sys.executable)"]).output();
    let output = output.map_err(|error| format!("python3 ({error}): `make packages` installs it"))?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    // Links are followed: tests that play a page link to it.
    let status = Command::new("cp").arg("-RL").args([from, to]).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("cp {} {}: {other:?}", from.display(), to.display())),
    }
}

/// Runs a command, which must succeed, and returns what it prints.
pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{} cannot be started: {error}", command.get_program().display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => Err(format!("{command:?}: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}

/// Runs the command behind it where the repository and the build folder are empty.
fn hiding() -> Command {
    let mut command = Environment::as_root("unshare");
    let script = "mount -t tmpfs none \"$1\" && mount -t tmpfs none \"$2\" && shift 2 && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script, "sh"]);
    command.arg(built().parent().expect("a folder of the build folder")).arg(env!("CARGO_MANIFEST_DIR"));
    command
}

fn can_hide() -> bool {
    let tried = hiding().arg("true").stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

/// Whether this program is root's.
fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
