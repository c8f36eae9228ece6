// Policy packs are loaded as CommonJS.
const { PolicyPack } = require("@pulumi/policy");
const { guardrails } = require("ramet/policy");

new PolicyPack("platform", {
  policies: [
    ...guardrails({
      settings: {
        "ramet-bounded-replicas": { maxReplicas: 50 },
        "ramet-bounded-lifetimes": { maxLifetime: "24 hours" },
      },
    }),
    // Add your own policies here.
  ],
});
