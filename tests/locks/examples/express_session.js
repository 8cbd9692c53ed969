// express-session with connect-redis: two servers, browsers that log in, read and log out; sessions are rolled and touched.
const express = require('express');
const session = require('express-session');
const { createClient } = require('redis');
const { RedisStore } = require('connect-redis');
const { start, done, play, url } = require('./processes');

async function server() {
  const client = await createClient({ url }).connect();
  const store = new RedisStore({ client, prefix: 'myapp:' });
  const app = express();
  app.use(session({ store, resave: false, saveUninitialized: false, secret: 'keyboard cat' }));
  app.get('/login/:name', (request, reply) => {
    request.session.user = request.params.name;
    reply.send('welcome');
  });
  app.get('/visit', (request, reply) => {
    request.session.visits = (request.session.visits ?? 0) + 1;
    reply.send(`${request.session.user} ${request.session.visits}`);
  });
  app.get('/logout', (request, reply) => request.session.destroy(() => reply.send('bye')));
  app.get('/new', (request, reply) => request.session.regenerate(() => reply.send('new')));
  const listening = app.listen(0, '127.0.0.1', () => process.send(listening.address().port));
  await new Promise((resolve) => process.once('message', resolve));
  listening.close();
  await client.close();
}

async function browser(ports, name) {
  let cookie;
  let turn = 0;
  const open = async (path) => {
    const port = ports[turn++ % ports.length];
    const reply = await fetch(`http://127.0.0.1:${port}${path}`, { headers: cookie ? { cookie } : {} });
    cookie = reply.headers.get('set-cookie')?.split(';')[0] ?? cookie;
    return reply.text();
  };
  await open(`/login/${name}`);
  for (let visit = 0; visit < 5; visit++) await open('/visit');
  const last = await open('/visit');
  await open('/new');
  await open('/visit');
  await open('/logout');
  return last;
}

async function main() {
  const servers = [start('server'), start('server')];
  const port = ({ child }) => new Promise((resolve) => child.once('message', resolve));
  const ports = await Promise.all(servers.map(port));
  const seen = await Promise.all(['ann', 'bob', 'cem'].map((name) => browser(ports, name)));
  done('each browser has a session of its own', seen.join(), 'ann 6,bob 6,cem 6');
  servers.forEach(({ child }) => child.send('stop'));
  await Promise.all(servers);
}

play({ main, server });
