export default workflow({
  name: "digest",
  topics: { mail: {}, told: { external: true } },
  producers: {
    poll: {
      schedule: { interval: "1h" },
      publishes: ["mail"],
      handler: async (ctx, state) => {
        ctx.publish("mail", { messageId: "first", payload: { from: "ann" } });
        return state;
      },
    },
  },
  consumers: {
    read: {
      subscribe: ["mail"],
      prepare: async (ctx) => {
        const mails = await ctx.peek("mail", { limit: 10 });
        return { reservations: [{ topic: "mail", ids: mails.map((mail) => mail.messageId) }] };
      },
      next: async (ctx) => ({ at: ctx.now() }),
    },
  },
});
