// graphile-worker, as its page on performance configures it. It asks for jobs of the future every
// `pollInterval`, whose default is two seconds.
import { Logger } from "@graphile/logger";
import { makeWorkerUtils, run } from "graphile-worker";
import { main, store } from "./shared.mjs";

const preset = {
  worker: {
    connectionString: store,
    concurrentJobs: 24,
    maxPoolSize: 25,
    pollInterval: 10,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    logger: new Logger(() => (level, message) => level === "error" && console.error(message)),
  },
};

await main({
  size: 5000,
  async open() {
    const utils = await makeWorkerUtils({ preset });
    await utils.migrate();
    const spec = (job) => ({ identifier: "perform", payload: job, runAt: new Date(job.due) });
    return { insert: (batch) => utils.addJobs(batch.map(spec)), close: () => utils.release() };
  },
  async work(perform) {
    const runner = await run({
      preset,
      noHandleSignals: true,
      taskList: { perform: async (job) => void perform(job) },
    });
    return () => runner.stop();
  },
});
