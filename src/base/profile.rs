//! Compatibility profiles: the server and version that redouble imitates.
//!
//! A profile is consistent: the version it reports, its commands and options, and its texts belong together, because
//! clients adapt to the version that they see.

use std::fmt;
use std::str::FromStr;

/// A release: major, minor, patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u8, pub u8, pub u8);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// The first release of each server that has a command, an option or a behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    pub redis: Option<Version>,
    pub valkey: Option<Version>,
}

/// The Redis release that Valkey forked from: every Valkey has its features.
const FORK: Version = Version(7, 2, 4);

impl Since {
    /// In Redis since this release, and in Valkey if that is not later than the fork.
    pub const fn redis(major: u8, minor: u8, patch: u8) -> Self {
        let shared = major < FORK.0 || (major == FORK.0 && minor <= FORK.1);
        Self {
            redis: Some(Version(major, minor, patch)),
            valkey: if shared { Some(Version(major, minor, patch)) } else { None },
        }
    }

    /// In Valkey only.
    pub const fn valkey(major: u8, minor: u8, patch: u8) -> Self {
        Self { redis: None, valkey: Some(Version(major, minor, patch)) }
    }

    /// Added to both servers after the fork.
    pub const fn each(redis: Version, valkey: Version) -> Self {
        Self { redis: Some(redis), valkey: Some(valkey) }
    }

    /// The release to show in the documentation.
    pub fn first(&self) -> Version {
        self.redis.or(self.valkey).unwrap_or(Version(1, 0, 0))
    }
}

/// The servers that profiles imitate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Redis,
    Valkey,
}

/// A server at a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    name: &'static str,
    family: Family,
    version: Version,
}

const fn profile(name: &'static str, family: Family, version: Version) -> Profile {
    Profile { name, family, version }
}

/// Every profile, oldest first.
pub const PROFILES: [Profile; 7] = [
    profile("redis-6.2", Family::Redis, Version(6, 2, 14)),
    profile("redis-7.0", Family::Redis, Version(7, 0, 15)),
    profile("redis-7.2", Family::Redis, Version(7, 2, 5)),
    profile("redis-7.4", Family::Redis, Version(7, 4, 2)),
    profile("redis-8.4", Family::Redis, Version(8, 4, 0)),
    profile("valkey-8.1", Family::Valkey, Version(8, 1, 4)),
    profile("valkey-9.1", Family::Valkey, Version(9, 1, 2)),
];

impl Default for Profile {
    fn default() -> Self {
        PROFILES[2]
    }
}

impl Profile {
    /// The name that `--compat` takes.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The server that is imitated.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The server's own version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The Redis version that clients see: Valkey reports the one it forked from.
    pub fn redis_version(&self) -> Version {
        match self.family {
            Family::Redis => self.version,
            Family::Valkey => FORK,
        }
    }

    /// Whether this server has what was added with `since`.
    pub fn has(&self, since: Since) -> bool {
        let first = match self.family {
            Family::Redis => since.redis,
            Family::Valkey => since.valkey,
        };
        first.is_some_and(|first| first <= self.version)
    }

    /// The first release of this server with what was added with `since`.
    pub fn first_with(&self, since: Since) -> Version {
        let own = match self.family {
            Family::Redis => since.redis,
            Family::Valkey => since.valkey,
        };
        own.unwrap_or_else(|| since.first())
    }

    /// Whether this is Redis of that release or later, or a Valkey, whose fork is later than 7.0.
    pub fn since_redis(&self, major: u8, minor: u8) -> bool {
        self.redis_version() >= Version(major, minor, 0)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        PROFILES.into_iter().find(|profile| profile.name == name).ok_or_else(|| {
            let known: Vec<&str> = PROFILES.iter().map(Profile::name).collect();
            format!("unknown profile '{name}'; known are {}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valkey_has_what_redis_had_before_the_two_parted_and_nothing_later() {
        let valkey: Profile = "valkey-8.1".parse().unwrap();
        assert!(valkey.has(Since::redis(7, 2, 0)));
        assert!(!valkey.has(Since::redis(7, 4, 0)));
        assert!(!valkey.has(Since::redis(8, 4, 0)));
        assert!(valkey.has(Since::valkey(8, 1, 0)));
        assert!(!valkey.has(Since::valkey(9, 0, 0)));
        assert_eq!(valkey.redis_version(), Version(7, 2, 4));
    }

    #[test]
    fn a_profile_that_does_not_exist_is_refused_with_those_that_do() {
        assert!("redis-9".parse::<Profile>().unwrap_err().contains("redis-7.0"));
    }
}
