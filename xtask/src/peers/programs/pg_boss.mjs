// pg-boss with its shortest interval between polls, and heartbeats, which notice a dead worker.
import { PgBoss } from "pg-boss";
import { main, store } from "./shared.mjs";

const options = {
  connectionString: store,
  superviseIntervalSeconds: 5,
  monitorIntervalSeconds: 5,
};

async function start() {
  const boss = new PgBoss(options);
  boss.on("error", (error) => console.error(error));
  await boss.start();
  await boss.createQueue("perform", { heartbeatSeconds: 10 });
  return boss;
}

await main({
  size: 5000,
  async open() {
    const boss = await start();
    const spec = (job) => ({ data: job, startAfter: new Date(job.due) });
    return {
      insert: (batch) => boss.insert("perform", batch.map(spec)),
      close: () => boss.stop({ graceful: false }),
    };
  },
  async work(perform) {
    const boss = await start();
    await boss.work(
      "perform",
      { batchSize: 500, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true, localConcurrency: 2 },
      async (jobs) => jobs.forEach((job) => perform(job.data)),
    );
    return () => boss.stop({ graceful: true, timeout: 5000 });
  },
});
