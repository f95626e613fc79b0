// BullMQ with one worker; completed jobs are removed, as its page on production advises.
import { Queue, Worker } from "bullmq";
import IORedis from "ioredis";
import { main, store } from "./shared.mjs";

const connect = () => new IORedis(store, { maxRetriesPerRequest: null });

await main({
  size: 1000,
  async open() {
    const connection = connect();
    const queue = new Queue("perform", {
      connection,
      defaultJobOptions: { removeOnComplete: true, removeOnFail: 1000 },
    });
    const spec = (job) => ({
      name: "perform",
      data: job,
      opts: { delay: Math.max(0, job.due - Date.now()) },
    });
    return {
      insert: (batch) => queue.addBulk(batch.map(spec)),
      close: async () => {
        await queue.close();
        connection.disconnect();
      },
    };
  },
  async work(perform) {
    const worker = new Worker("perform", async (job) => void perform(job.data), {
      connection: connect(),
      concurrency: 100,
    });
    worker.on("error", (error) => console.error(error));
    await worker.waitUntilReady();
    return () => worker.close();
  },
});
