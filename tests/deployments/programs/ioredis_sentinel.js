// ioredis with Sentinels.

const { Redis } = require("ioredis");
const { addresses, show, errorOf, after, load, run, RELEASE } = require("./common.js");

const sentinels = addresses("REDIS_SENTINELS");
const name = process.env.REDIS_SENTINEL_SERVICE;
const numbers = Array.from({ length: 200 }, (_, number) => number);

const operations = async (client) => {
  const set = await Promise.all(numbers.map((number) => client.set(`key:${number}`, number)));
  show("set", set.every((answer) => answer === "OK"));
  show("incr", [await client.incr("counter"), await client.incrby("counter", 41), await client.append("text", "abc")]);
  show("hash", [await client.hset("hash", { a: 1, b: 2 }), await client.hgetall("hash")]);
  show("wrong type", await errorOf(() => client.lpush("hash", 1)));
  show("transaction", await client.multi().set("a", 1).incr("a").lrange("none", 0, -1).exec());
  const pipeline = client.pipeline();
  for (const number of numbers) pipeline.set(`pipe:${number}`, number).get(`pipe:${number}`);
  const answers = await pipeline.exec();
  show("pipeline", answers.filter(([error, answer], at) => error || answer !== (at % 2 ? String((at - 1) / 2) : "OK")));
  show("eval", await client.eval("return {KEYS[1], ARGV[1], redis.call('GET', KEYS[1])}", 1, "counter", "x"));
  const blocked = client.duplicate();
  show("nothing to pop", await blocked.blpop("queue", 0.2));
  const popped = blocked.blpop("queue", 10);
  await after(200);
  await client.rpush("queue", "element");
  show("pop", await popped);
  blocked.disconnect();
  const subscriber = client.duplicate();
  show("subscribe", await subscriber.subscribe("news"));
  const heard = new Promise((resolve) => subscriber.once("message", (...message) => resolve(message)));
  show("publish", await client.publish("news", "hello"));
  show("message", await heard);
  subscriber.disconnect();
  show("lock", [await client.set("lock", "token", "PX", 30000, "NX"), await client.set("lock", "other", "PX", 30000, "NX")]);
  show("release", [await client.eval(RELEASE, 1, "lock", "other"), await client.eval(RELEASE, 1, "lock", "token")]);
  show("wait", await client.wait(2, 10000));
  const replica = new Redis({ sentinels, name, role: "slave" });
  show("replica", [await replica.get("counter"), await errorOf(() => replica.set("a", 1))]);
  const role = await replica.role();
  const sentinel = new Redis({ ...sentinels[0] });
  const now = await sentinel.sentinel("get-master-addr-by-name", name);
  show("one master", [role[0], role[1] === now[0], String(role[2]) === now[1]]);
  replica.disconnect();
  sentinel.disconnect();
};

run(async () => {
  const client = new Redis({ sentinels, name, maxRetriesPerRequest: null, failoverDetector: true });
  await operations(client);
  await load(async (key, number) => {
    await client.rpush(key, number);
    await client.incr(`n${key}`);
  });
  const got = await Promise.all(numbers.map((number) => client.get(`pipe:${number}`)));
  show("get", got.every((answer, number) => answer === String(number)));
  show("values", [await client.get("counter"), await client.hgetall("hash"), (await client.role())[0]]);
});
