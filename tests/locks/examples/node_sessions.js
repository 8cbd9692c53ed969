// Sessions of koa, and socket.io over several servers with the adapters for Redis.
const http = require('node:http');
const Redis = require('ioredis');
const { start, done, pause, play, url } = require('./processes');

async function koa() {
  const Koa = require('koa');
  const session = require('koa-generic-session');
  const app = new Koa();
  app.keys = ['secret'];
  app.use(session({ store: require('koa-redis')({ url }), ttl: 60000 }));
  app.use(async (context) => {
    if (context.path === '/logout') {
      context.session = null;
      context.body = 'bye';
      return;
    }
    context.session.count = (context.session.count ?? 0) + 1;
    context.body = String(context.session.count);
  });
  const listening = app.listen(0, '127.0.0.1', () => process.send(listening.address().port));
  await new Promise((resolve) => process.once('message', resolve));
}

async function sockets(kind) {
  const { Server } = require('socket.io');
  const server = http.createServer();
  const redis = new Redis(url);
  const adapter = kind === 'streams'
    ? require('@socket.io/redis-streams-adapter').createAdapter(redis)
    : require('@socket.io/redis-adapter').createAdapter(redis, redis.duplicate());
  const io = new Server(server, { adapter });
  io.on('connection', (socket) => {
    socket.join('room');
    socket.on('hello', async (_, answer) => {
      io.to('room').emit('hello');
      answer((await io.in('room').fetchSockets()).length);
    });
  });
  server.listen(0, '127.0.0.1', () => process.send(server.address().port));
  await new Promise((resolve) => process.once('message', resolve));
}

const port = ({ child }) => new Promise((resolve) => child.once('message', resolve));

async function stop(servers) {
  servers.forEach(({ child }) => child.send('stop'));
  await Promise.all(servers);
}

async function main() {
  let servers = [start('koa'), start('koa')];
  const ports = await Promise.all(servers.map(port));
  const browse = async () => {
    const cookies = new Map();
    let last;
    for (let visit = 0; visit < 6; visit++) {
      const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const reply = await fetch(`http://127.0.0.1:${ports[visit % 2]}/`, { headers: { cookie } });
      for (const line of reply.headers.getSetCookie()) cookies.set(...line.split(';')[0].split(/=(.*)/s));
      last = await reply.text();
    }
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    await fetch(`http://127.0.0.1:${ports[0]}/logout`, { headers: { cookie } });
    return last;
  };
  done('each browser has a session of its own', (await Promise.all([browse(), browse(), browse()])).join(), '6,6,6');
  await stop(servers);
  for (const kind of ['publish', 'streams']) {
    servers = [start('sockets', kind), start('sockets', kind)];
    const { io } = require('socket.io-client');
    const clients = (await Promise.all(servers.map(port))).map((port) => io(`http://127.0.0.1:${port}`, { transports: ['websocket'] }));
    await Promise.all(clients.map((client) => new Promise((resolve) => client.once('connect', resolve))));
    const heard = Promise.all(clients.map((client) => new Promise((resolve) => client.once('hello', resolve))));
    await pause(300);
    clients[0].emit('hello', 1, () => {});
    await heard;
    clients.forEach((client) => client.close());
    await stop(servers);
    done(`all were told: ${kind}`, true);
  }
}

play({ main, koa, sockets });
