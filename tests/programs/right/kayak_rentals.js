// Kayaks: seven boats can be rented for each hour. The handlers of the booking server share one connection, and thirty
// customers come at once.
//
// The hours are counters of three bits in one string. BITFIELD refuses to count beyond seven, which is the number of boats, and
// a booking that is given back counts down. A server that dies in between has rented too few boats, and never too many.
const Redis = require('ioredis');

const DAY = 'kayaks:2026-07-04';
const HOURS = [9, 10, 11];
const BOATS = 7;

class Rentals {
  constructor(redis) {
    this.redis = redis;
  }

  async rent(hour, customer) {
    const [count] = await this.redis.bitfield(DAY, 'OVERFLOW', 'FAIL', 'INCRBY', 'u3', `#${hour}`, 1);
    if (count === null) return false;
    await this.redis.sadd(`${DAY}:${hour}`, customer);
    return true;
  }

  async cancel(hour, customer) {
    if ((await this.redis.srem(`${DAY}:${hour}`, customer)) === 0) return false;
    await this.redis.bitfield(DAY, 'OVERFLOW', 'FAIL', 'INCRBY', 'u3', `#${hour}`, -1);
    return true;
  }

  async booked(hour) {
    return this.redis.smembers(`${DAY}:${hour}`);
  }
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  const rentals = new Rentals(redis);
  const customers = Array.from({ length: 30 }, (_, number) => `customer-${number}`);
  let most = 0;
  let accepted = 0;
  let cancelled = 0;

  await Promise.all(
    customers.map(async (customer, place) => {
      const hour = HOURS[place % HOURS.length];
      if (!(await rentals.rent(hour, customer))) return;
      accepted += 1;
      most = Math.max(most, (await rentals.booked(hour)).length);
      if (place % 4 === 0 && (await rentals.cancel(hour, customer))) cancelled += 1;
    }),
  );
  await Promise.all(HOURS.map((hour) => rentals.rent(hour, 'walk-in').then((got) => (accepted += got))));

  let booked = 0;
  for (const hour of HOURS) {
    const names = await rentals.booked(hour);
    const [count] = await redis.bitfield(DAY, 'GET', 'u3', `#${hour}`);
    booked += names.length;
    most = Math.max(most, names.length, names.length === count ? 0 : Infinity);
  }
  await redis.quit();
  console.log(
    most <= BOATS && booked === accepted - cancelled
      ? `ok: ${booked} boats are rented in ${HOURS.length} hours, at most ${most} of ${BOATS} in one`
      : `damage: ${booked} boats are rented, ${accepted} accepted, ${cancelled} given back, ${most} in one hour`,
  );
}

main();
