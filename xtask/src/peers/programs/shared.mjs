// What the programs for Node.js share. Each is called as `create COUNT FIRST DUE RATE GRAIN LIMIT`
// or as `work LOG`; the store's address is in PEER_STORE.
import { openSync, writeSync } from "node:fs";

export const store = process.env.PEER_STORE;

// The jobs of a load: `rate` of them are due in each second from `due` on, all at once if it is 0.
function* jobs(count, first, due, rate, grain) {
  for (let i = 0; i < count; i++) {
    const after = rate === 0 ? 0 : Math.floor((i * 1000) / rate / grain) * grain;
    yield { id: first + i, due: due + after };
  }
}

// Creates jobs in batches until there are enough of them or the time is over.
async function create([count, first, due, rate, grain, limit], size, insert) {
  const begin = performance.now();
  const seconds = () => (performance.now() - begin) / 1000;
  let created = 0;
  let batch = [];
  for (const job of jobs(count, first, due, rate, grain)) {
    batch.push(job);
    if (batch.length === size || created + batch.length === count) {
      await insert(batch);
      created += batch.length;
      batch = [];
      if (seconds() > limit) break;
    }
  }
  console.log(JSON.stringify({ created, seconds: seconds() }));
}

// The job itself: it notes when it was due and when it started. The note survives a kill.
function handler(log) {
  const file = openSync(log, "a");
  return ({ id, due }) => writeSync(file, `${id} ${due} ${Date.now()}\n`);
}

// `open` returns { insert, close }; `work` takes the job and returns a function that stops.
export async function main({ size, open, work }) {
  const [verb, ...rest] = process.argv.slice(2);
  if (verb === "create") {
    const { insert, close } = await open();
    await create(rest.map(Number), size, insert);
    await close();
  } else {
    const stop = await work(handler(rest[0]));
    process.once("SIGTERM", async () => {
      await stop();
      process.exit(0);
    });
    console.log("ready");
  }
}
