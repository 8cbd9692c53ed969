// What the examples share: each starts itself anew, as several processes with a role.
const { fork } = require('node:child_process');

const [role = 'main', ...words] = process.argv.slice(2);

// Starts this program as another process; the promise is kept when that has ended well.
function start(role, ...words) {
  const child = fork(process.argv[1], [role, ...words.map(String)]);
  const ended = new Promise((resolve, reject) => {
    child.on('exit', (code) => (code === 0 ? resolve() : reject(new Error(`${role} ended with ${code}`))));
  });
  return Object.assign(ended, { child });
}

let count = 0;

// One line for each thing that a program has done as its library's README says.
function done(what, is, should = true) {
  if (is !== should) throw new Error(`${what}: ${is} instead of ${should}`);
  console.log(`ok ${++count} ${what}`);
}

const url = process.env.REDIS_URL;
const connection = { host: new URL(url).hostname, port: Number(new URL(url).port) };
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Calls the function of this process's role.
function play(roles) {
  Promise.resolve(roles[role](...words)).then(
    () => process.exit(0),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
}

module.exports = { start, done, pause, play, url, connection };
