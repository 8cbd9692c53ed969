//! Client libraries on the Sentinels of redouble itself, beside real ones: the same answers, and no write is lost.

use super::programs::compare_with_own;

pub fn redis_py_sees_no_difference_between_own_sentinels_and_real_ones() -> Result<(), String> {
    compare_with_own("redis_py_sentinel")
}

pub fn redis_py_with_asyncio_sees_no_difference_between_own_sentinels_and_real_ones() -> Result<(), String> {
    compare_with_own("redis_py_sentinel_asyncio")
}

pub fn ioredis_sees_no_difference_between_own_sentinels_and_real_ones() -> Result<(), String> {
    compare_with_own("ioredis_sentinel")
}

pub fn node_redis_sees_no_difference_between_own_sentinels_and_real_ones() -> Result<(), String> {
    compare_with_own("node_redis_sentinel")
}

pub fn redis_rs_sees_no_difference_between_own_sentinels_and_real_ones() -> Result<(), String> {
    compare_with_own("redis_rs_sentinel")
}
