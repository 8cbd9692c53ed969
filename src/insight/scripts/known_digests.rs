//! Scripts of lock libraries by their SHA-1, for EVALSHA of a script that was loaded before anybody looked.
//!
//! What each does is written down as a script of our own that calls the same commands and gives the same replies. A test gets the
//! libraries and compares (`tests/scripts/digests.rs`).

/// Deletes a key that has a value.
const COMPARE_AND_DELETE: &str = "
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0";

/// Gives a key that has a value a new time to live.
const COMPARE_AND_PEXPIRE: &str = "
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
return 0";

/// The same, and it does not matter whether that was possible.
const COMPARE_THEN_PEXPIRE: &str = "
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('pexpire', KEYS[1], ARGV[2])
return 1";

/// Gives a key that has a value and a time to live a new one, or adds to it.
const COMPARE_AND_ADD_TIME: &str = "
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
local left = redis.call('pttl', KEYS[1])
if left < 0 then return 0 end
local new = ARGV[2]
if ARGV[3] == '0' then new = ARGV[2] + left end
redis.call('pexpire', KEYS[1], new)
return 1";

/// Sets a key that is free or has the value already.
const SET_IF_FREE_OR_EQUAL: &str = "
local held = redis.call('get', KEYS[1])
if held and held ~= ARGV[1] then return redis.error_reply('ERROR') end
return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])";

/// Deletes a key that has a value. A free one is fine, another value is not.
const DELETE_IF_FREE_OR_EQUAL: &str = "
local held = redis.call('get', KEYS[1])
if not held then return redis.status_reply('OK') end
if held ~= ARGV[1] then return redis.error_reply('ERROR') end
return redis.call('del', KEYS[1])";

/// Tells how long a key that has a value has still to live.
const COMPARE_AND_TTL: &str = "
if redis.call('get', KEYS[1]) ~= ARGV[1] then return redis.error_reply('ERROR') end
return redis.call('ttl', KEYS[1])";

/// Sets all keys if all are free.
const SET_ALL_IF_FREE: &str = "
for _, key in ipairs(KEYS) do if redis.call('exists', key) == 1 then return 0 end end
for _, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end
return #KEYS";

/// Sets all keys anew if all have a value.
const SET_ALL_IF_EQUAL: &str = "
for _, key in ipairs(KEYS) do if redis.call('get', key) ~= ARGV[1] then return 0 end end
for _, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end
return #KEYS";

/// Deletes the keys that have a value, and counts them.
const DELETE_THOSE_THAT_ARE_EQUAL: &str = "
local count = 0
for _, key in ipairs(KEYS) do
  if redis.call('get', key) == ARGV[1] then redis.pcall('del', key) count = count + 1 end
end
return count";

/// By SHA-1: what a script does, and the library that has it.
pub const KNOWN_DIGESTS: &[(&str, &str, &str)] = &[
    // redis-py since 3.0, and valkey-py.
    ("c3f8721cbb97f72bc19e972846bd7aaf91901658", COMPARE_AND_DELETE, "redis-py"),
    ("a4e8783852e6b949f9ef3a97212805108459a890", COMPARE_AND_ADD_TIME, "redis-py"),
    ("1cac51482acf5858da00f6d685d68f886cd6b6b2", COMPARE_THEN_PEXPIRE, "redis-py"),
    ("ba015a80261b616e7a62d35df0b8e3edbe6c9414", COMPARE_AND_PEXPIRE, "pottery"),
    ("a4aada0b36710970eedaaaeec4a6b7d8c78c4f80", COMPARE_AND_DELETE, "pottery"),
    ("aecadef15d24ccd9360d8641cdec8e0337a0d343", SET_IF_FREE_OR_EQUAL, "aioredlock"),
    ("0e084295a6567dabd5b7d5b4c99018cff95fceff", DELETE_IF_FREE_OR_EQUAL, "aioredlock"),
    ("2239e3d89e276c90ec523515c30bcf0071823c7e", COMPARE_AND_TTL, "aioredlock"),
    ("e9b478387d9b08487f964382baf8443e7bd1aeb5", COMPARE_AND_DELETE, "redlock-ng"),
    ("20503cb22929c16ca7525d8fd1a5736f023dd629", COMPARE_AND_PEXPIRE, "redlock-ng"),
    ("96da70f7716f27d278a5218544df37fd8b0a5e4c", SET_ALL_IF_FREE, "redlock 5"),
    ("aed6f382e410db8ba7926d4e5e9aab410bf2a78a", SET_ALL_IF_EQUAL, "redlock 5"),
    ("e4612211c9f8f51c257e26e056b0a654b3187242", DELETE_THOSE_THAT_ARE_EQUAL, "redlock 5"),
    ("e5a322e2634ef59a516e8ea150cb085afafee684", SET_ALL_IF_FREE, "redlock 4"),
    ("ce46f80993d5dac20dd066eb301a4e37994bdbed", SET_ALL_IF_EQUAL, "redlock 4"),
    ("0f0f23b9048b36752b5be114f357ba083449f908", DELETE_THOSE_THAT_ARE_EQUAL, "redlock 4"),
];

/// What the script of this SHA-1 does, as a script that does the same.
pub fn equivalent_of(digest: &[u8]) -> Option<&'static [u8]> {
    let known = KNOWN_DIGESTS.iter().find(|(known, ..)| digest.eq_ignore_ascii_case(known.as_bytes()));
    known.map(|(_, text, _)| text.as_bytes())
}
