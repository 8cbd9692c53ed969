//! Installs the packages of programs in other languages, once, through pip and npm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A virtual environment of Python packages.
#[derive(Clone, Copy, Debug)]
pub struct Requirements {
    pub name: &'static str,
    pub text: &'static str,
}

/// The environment of most Python programs here.
pub const COMMON: Requirements = Requirements { name: "python", text: include_str!("python/requirements.txt") };

/// The file in a complete folder that holds what the folder was made from.
const STAMP: &str = ".installed";

/// The folder of all installed packages: `target/locks`.
pub fn folder() -> PathBuf {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    temporary.parent().expect("it is a folder of the build folder").join("locks")
}

/// Makes a folder, unless a complete one was made from the same input. An incomplete one is made again.
pub fn once(directory: &Path, made_from: &str, make: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let stamp = directory.join(STAMP);
    if fs::read_to_string(&stamp).is_ok_and(|found| found == made_from) {
        return Ok(());
    }
    println!("installing {}", directory.strip_prefix(folder()).unwrap_or(directory).display());
    if directory.exists() {
        fs::remove_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    make()?;
    write(&stamp, made_from)
}

/// Returns the interpreter of an environment with these packages.
pub fn python(requirements: Requirements) -> Result<PathBuf, String> {
    let directory = folder().join("environments").join(requirements.name);
    let interpreter = directory.join("bin").join("python");
    let version = said(Command::new("python3").arg("--version"))?;
    once(&directory, &format!("{version}{}", requirements.text), || {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(&directory);
        done(venv)?;
        let list = directory.join("requirements.txt");
        write(&list, requirements.text)?;
        let mut pip = Command::new(&interpreter);
        pip.args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(&list);
        done(pip)
    })?;
    Ok(interpreter)
}

/// Packages for Node: a list, and a lock file that fixes every version.
#[derive(Clone, Copy, Debug)]
pub struct NodePackages {
    pub name: &'static str,
    pub package: &'static str,
    pub lock: &'static str,
}

/// The packages of most Node programs here.
pub const COMMON_NODE: NodePackages = NodePackages {
    name: "node",
    package: include_str!("node/package.json"),
    lock: include_str!("node/package-lock.json"),
};

/// Returns the folder of these packages.
pub fn node_modules(NodePackages { name, package, lock }: NodePackages) -> Result<PathBuf, String> {
    let directory = folder().join(name);
    once(&directory, &format!("{package}{lock}"), || {
        write(&directory.join("package.json"), package)?;
        write(&directory.join("package-lock.json"), lock)?;
        let mut npm = Command::new("npm");
        // `npm ci` refuses a lock file without the optional packages that a registry has for no machine of this kind.
        npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&directory);
        done(npm)
    })?;
    Ok(directory.join("node_modules"))
}

pub fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

pub fn done(mut command: Command) -> Result<(), String> {
    said(&mut command).map(drop)
}

/// Returns the output of a command, which must succeed.
pub fn said(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        format!("{} cannot be started ({error}): `make locks` installs it", command.get_program().display())
    })?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {}\n{errors}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
