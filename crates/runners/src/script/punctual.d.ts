// What scripts of Punctual see. Save it beside them (`punctual types > punctual.d.ts`), and an
// editor knows it too; with `"lib": ["ES2023"], "types": []` in its tsconfig.json or jsconfig.json,
// because nothing of a browser is there. docs/scripts.md says what each phase may call.

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** What a phase may give: JSON, with dates as ISO text, and without what is undefined. */
type Result = Json | Date | undefined | void | Result[] | { [key: string]: Result };

/** Declares a workflow: `export default workflow({ ... })`. */
declare function workflow(declared: Workflow): Workflow;

interface Workflow {
  name: string;
  version?: number | string;
  description?: string;
  /** The zone and calendar of schedules that name none. */
  timezone?: string;
  calendar?: string;
  /** What the payload of a run has to be, as JSON Schema. */
  input?: { [keyword: string]: Json };
  topics?: (string | ({ name: string } & Topic))[] | { [topic: string]: Topic };
  producers?: { [name: string]: Producer };
  consumers?: { [name: string]: Consumer };
  /** Names of the secrets that handlers read. */
  secrets?: string[];
  /** As in a definition in YAML; `script` of a step may be a `StepScript`. */
  triggers?: { [key: string]: Json }[];
  steps?: { [key: string]: any }[];
}

interface Topic {
  /** The same for all workflows that name it so. */
  shared?: boolean;
  /** Others work on its events. */
  external?: boolean;
  /** An event that was given back so often is skipped; 10 unless said. */
  max_attempts?: number;
}

interface Producer {
  schedule: { interval: string } | { cron: string; timezone?: string } | { [key: string]: Json };
  /** Topics. */
  publishes?: string[];
  /** Gives the new state. */
  handler(ctx: ProducerContext, state: Json): Result | Promise<Result>;
}

interface Consumer {
  /** Topics. */
  subscribe: string[];
  prepare(ctx: PrepareContext, state: Json): Prepared | Promise<Prepared>;
  mutate?(ctx: MutateContext, prepared: Json): void | Promise<void>;
  /** Finds out whether a mutation was done of which that is not known. */
  reconcile?(ctx: ReconcileContext, prepared: Json, mutation: Json): Reconciled | Promise<Reconciled>;
  /** Gives the new state. */
  next?(ctx: NextContext, prepared: Json, result: MutationResult): Result | Promise<Result>;
}

interface Prepared {
  /** Without any the consumer sleeps. */
  reservations: { topic: string; ids: string[] }[];
  data?: Result;
  /** When to look again, if no event comes before. */
  wakeAt?: string | Date;
}

type Reconciled = { status: "applied"; result?: Result } | { status: "did_not_happen" } | { status: "unknown" };

type MutationResult = { status: "applied"; result: Json } | { status: "none" } | { status: "skipped" };

/** In every phase. */
interface Context {
  /** The time of the phase, in RFC 3339: `new Date(ctx.now())`. */
  now(): string;
  /** A line of the log; `console.log` is the same. */
  log(...values: unknown[]): void;
  secrets: Secrets;
}

/** Declared secrets: `ctx.secrets.TOKEN`, or `ctx.secrets.get("TOKEN")`, which throws for others. */
type Secrets = { readonly [name: string]: string } & { get(name: string): string };

/** A step of type `script`; in a text it is the body of such a function. `item` and `index` are there in a `for_each`. */
type StepScript = (
  ctx: StepContext, input: any, steps: { [id: string]: Step }, run: Run, item?: any, index?: number,
) => Result | Promise<Result>;

/** A step that may have run before. */
interface Step {
  status: string;
  output: any;
  error: string | null;
}

/** What a run knows of itself. What does not apply is null. `input` is its payload. */
interface Run {
  id: string;
  schedule_id: string | null;
  schedule_name: string | null;
  /** The number of its occurrence, and how often that was tried before. */
  n: number | null;
  retry: number | null;
  nominal_at: string | null;
  effective_at: string | null;
  triggered_by: string;
  by: string | null;
  /** How many missed occurrences it stands for besides its own. */
  merged: number;
  created_at: string;
  started_at: string | null;
  trigger_id: string | null;
  event: any;
  handler: string | null;
}

/** `ctx` of a step of type `script`. */
interface StepContext extends Context, Fetching {}
interface ProducerContext extends Context, Fetching, Publishing {
  /** Says what events come from, and gives its id for `causes`: the same for the same thing. */
  registerInput(input: { source: string; type: string; id: string; title?: string }): string;
}
interface PrepareContext extends Context, Fetching {
  /** The first pending events of a topic; 100 unless `limit`, at most 1,000. */
  peek(topic: string, options?: { limit?: number }): Promise<StoredEvent[]>;
  /** Events by their message ids, at most 1,000. */
  getByIds(topic: string, ids: string[]): Promise<StoredEvent[]>;
}
interface MutateContext extends Context {
  /** Each ends the phase: nothing behind it runs. */
  mutate: {
    http(request: HttpMutation): never;
    worker(request: WorkerMutation): never;
  };
}
interface ReconcileContext extends Context, Fetching {}
interface NextContext extends Context, Publishing {}

interface Fetching {
  /** Reads from outside, to where the host lets it. Fails with an error only without an answer. */
  fetch(url: string, options?: FetchOptions): Promise<FetchResponse>;
}

interface FetchOptions {
  method?: "GET" | "HEAD" | "OPTIONS";
  headers?: { [name: string]: string };
}

interface FetchResponse {
  status: number;
  /** Whether the status is one of 200 to 299. */
  ok: boolean;
  /** By names in lower case, without cookies. */
  headers: { [name: string]: string };
  /** The whole body, at most 1 MiB. */
  body: string;
  text(): Promise<string>;
  json(): Promise<any>;
}

interface Publishing {
  /** All of the events or, with an error, none. They are stored with the result of the phase. */
  publish(topic: string, events: NewEvent | NewEvent[]): void;
}

interface NewEvent {
  /** Unique in its topic; publishing it again replaces the payload. */
  messageId: string;
  title?: string;
  payload?: Result;
  /** Ids of inputs and events that it comes from. */
  causes?: string[];
}

interface StoredEvent {
  messageId: string;
  title?: string;
  payload: any;
  causes?: string[];
  [key: string]: any;
}

interface HttpMutation {
  method?: string;
  url: string;
  headers?: { [name: string]: string };
  body?: Result;
  [key: string]: Result;
}

interface WorkerMutation {
  queue: string;
  input?: Result;
  [key: string]: Result;
}

declare const console: {
  log(...values: unknown[]): void;
  info(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
  debug(...values: unknown[]): void;
};
