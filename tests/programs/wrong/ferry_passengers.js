// Ferry passengers: two desks, each with a named connection of its own, write the passenger list of the same sailing. A
// hash has a field for each sailing whose list is being edited.
//
// Wrong: HSETNX answers 0 or 1 here, and the desk compares the answer with `false`. Nobody is ever refused.
const { createClient } = require('redis');

const EDITED = 'sailings:edited';

class Desk {
  static async open(name) {
    const client = createClient({ url: process.env.REDIS_URL, name: `desk-${name}` });
    client.on('error', (error) => console.error(error));
    return new Desk(name, await client.connect());
  }

  constructor(name, client) {
    this.name = name;
    this.client = client;
  }

  async edit(sailing) {
    const entered = await this.client.hSetNX(EDITED, sailing, this.name);
    if (entered === false) throw new Error(`${sailing} is being edited`); // 0 is not false!
    return JSON.parse((await this.client.get(`sailing:${sailing}:passengers`)) ?? '[]');
  }

  async save(sailing, passengers) {
    await this.client.set(`sailing:${sailing}:passengers`, JSON.stringify(passengers)); // the second without its field!
    if ((await this.client.hGet(EDITED, sailing)) === this.name) await this.client.hDel(EDITED, sailing);
  }
}

async function main() {
  const [quay, town] = [await Desk.open('quay'), await Desk.open('town')];

  // A customer at each desk: both lists are on the screens at the same time.
  const onQuay = await quay.edit('17:40');
  const inTown = await town.edit('17:40');
  await quay.save('17:40', [...onQuay, 'Aalto', 'Berg']);
  await town.save('17:40', [...inTown, 'Chen']);

  const listed = JSON.parse(await quay.client.get('sailing:17:40:passengers'));
  console.log(
    listed.length === 3
      ? 'ok: three passengers are listed'
      : `damage: three tickets were sold, and the list of the 17:40 has ${listed.length}: ${listed}`,
  );
  await Promise.all([quay.client.close(), town.client.close()]);
}

main();
