//! Installs suites, once: through pip, npm, cargo and apt-get, from the registries that these are configured for.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::apt::unpack;
use super::packages::{NodePackages, Requirements, done, folder, node_modules, once, python, write};
use super::sources::{Edit, cargo, copy, crate_source, edit, source_package};
use super::suites::{Source, Suite};

/// Where a suite runs, and with which program.
pub struct Installed {
    pub directory: PathBuf,
    pub program: PathBuf,
}

const PYTHON: Requirements = Requirements { name: "clients", text: include_str!("python/requirements.txt") };

const IOREDIS: NodePackages = NodePackages {
    name: "ioredis",
    package: include_str!("ioredis/package.json"),
    lock: include_str!("ioredis/package-lock.json"),
};

const NODE_REDIS: NodePackages = NodePackages {
    name: "node-redis",
    package: include_str!("node_redis/package.json"),
    lock: include_str!("node_redis/package-lock.json"),
};

const NODE_REDIS_EDITS: &[Edit] = &[
    // No server here is part of a cluster.
    Edit {
        file: "packages/test-utils/lib/index.ts",
        from: "let dockersPromise: ReturnType<typeof spawnRedisCluster>;",
        until: "            const dockerImage",
        with: "let dockersPromise: ReturnType<typeof spawnRedisCluster>;\n        if (process.env.CLUSTERS) {\n",
    },
    // Runs side by side take different ports.
    Edit {
        file: "packages/test-utils/lib/dockers.ts",
        from: "let i = 6379",
        until: ";",
        with: "let i = Number(process.env.LOCKS_PORT)",
    },
];

/// The package lacks two crates of its workspace: one is published, the other is replaced.
const REDIS_RS_EDITS: &[Edit] = &[Edit {
    file: "Cargo.toml",
    from: "[dev-dependencies.tempfile]",
    until: "\n",
    with: "[patch.crates-io.redis]\npath = \".\"\n\n[workspace]\n\n[dev-dependencies.redis-test]\nversion = \"=1.0.4\"\n\n\
           [dev-dependencies.test_macros]\npath = \"test_macros\"\n\n[dev-dependencies.tempfile]",
}];

const TEST_MACROS: [&str; 2] = [include_str!("redis_rs/test_macros.toml"), include_str!("redis_rs/test_macros.rs")];

const HIREDIS_EDITS: &[Edit] = &[Edit {
    file: "test.c",
    from: "    if (config.type == CONN_TCP || config.type == CONN_SSL) {\n        /* timeout can",
    until: " only",
    with: "    if (0) {\n        /* timeout can",
}];

pub fn install(suite: &Suite) -> Result<Installed, String> {
    match suite.source {
        Source::Python { package, .. } => {
            let program = python(PYTHON)?;
            let wanted = format!("{package}=={}", suite.version);
            let directory = folder().join("sources").join(format!("clients-{package}"));
            once(&directory, &wanted, || source_package(&program, &wanted, package, &directory))?;
            Ok(Installed { directory, program })
        }
        Source::Ioredis => Ok(Installed { directory: node_modules(IOREDIS)?.join("ioredis"), program: "node".into() }),
        Source::NodeRedis { archives, package, archive } => {
            let modules = node_modules(NODE_REDIS)?;
            // Beside the packages, so that node finds them.
            let directory = modules.with_file_name("source");
            once(&directory, &format!("{archive} {NODE_REDIS_EDITS:?}"), || {
                unpack(package, archive, archives, &directory)?;
                edit(&directory, NODE_REDIS_EDITS)?;
                build_node_redis(&directory, &modules)
            })?;
            Ok(Installed { directory, program: "node".into() })
        }
        Source::RedisRs { .. } => {
            let directory = folder().join("sources").join("redis-rs");
            let made_from = format!("{} {REDIS_RS_EDITS:?} {TEST_MACROS:?}", suite.version);
            once(&directory, &made_from, || {
                copy(&crate_source("redis", suite.version)?, &directory)?;
                edit(&directory, REDIS_RS_EDITS)?;
                add_test_macros(&directory)?;
                let mut build = redis_rs_tests(&directory);
                build.arg("--no-run");
                done(build)
            })?;
            Ok(Installed { directory, program: cargo().into() })
        }
        Source::Hiredis { archives, package, archive } => {
            let directory = folder().join("sources").join("hiredis");
            once(&directory, &format!("{archive} {HIREDIS_EDITS:?}"), || {
                unpack(package, archive, archives, &directory)?;
                edit(&directory, HIREDIS_EDITS)?;
                let mut build = Command::new("make");
                build.args(["-s", "hiredis-test"]).current_dir(&directory);
                done(build)
            })?;
            Ok(Installed { program: directory.join("hiredis-test"), directory })
        }
    }
}

/// Compiles the client and what its tests share, which import each other as packages.
fn build_node_redis(directory: &Path, modules: &Path) -> Result<(), String> {
    let scope = modules.join("@redis");
    fs::create_dir_all(&scope).map_err(|error| format!("{}: {error}", scope.display()))?;
    for package in ["client", "test-utils"] {
        let link = scope.join(package);
        if link.symlink_metadata().is_err() {
            let target = directory.join("packages").join(package);
            symlink(target, &link).map_err(|error| format!("{}: {error}", link.display()))?;
        }
        let mut build = Command::new("node");
        build.arg(modules.join("typescript/bin/tsc")).arg("--project").arg(directory.join("packages").join(package));
        done(build)?;
    }
    Ok(())
}

fn add_test_macros(directory: &Path) -> Result<(), String> {
    let source = directory.join("test_macros/src");
    fs::create_dir_all(&source).map_err(|error| format!("{}: {error}", source.display()))?;
    let [manifest, library] = TEST_MACROS;
    write(&directory.join("test_macros/Cargo.toml"), manifest)?;
    write(&source.join("lib.rs"), library)
}

/// Returns the command that runs those tests of redis-rs that need neither a cluster nor a sentinel, modules or TLS.
pub fn redis_rs_tests(directory: &Path) -> Command {
    let mut command = Command::new(cargo());
    command.args(["test", "--features", "aio,tokio-comp,connection-manager,json,cache-aio"]).current_dir(directory);
    for test in [
        "parser",
        "test_acl",
        "test_async",
        "test_auth",
        "test_basic",
        "test_bignum",
        "test_cache",
        "test_credentials_provider_failures",
        "test_digest_utils",
        "test_geospatial",
        "test_hotkeys",
        "test_script",
        "test_streams",
        "test_support",
        "test_types",
    ] {
        command.args(["--test", test]);
    }
    // A separate target folder without debug information stays small.
    command.arg("--target-dir").arg(directory.join("target"));
    command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
    command
}
