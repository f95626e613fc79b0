// What a program writes by hand against the definitions: a field that may be left out must not have to be there.
import type { components } from "./openapi";

type Schemas = components["schemas"];

export const schedule: Schemas["ScheduleInput"] = {
  name: "nightly",
  workflow_id: "report",
  cron: "0 3 * * *",
};
export const preview: Schemas["PreviewInput"] = { cron: "0 3 * * *" };
export const heartbeat: Schemas["Heartbeat"] = { token: "t" };
