import { core } from "@pulumi/kubernetes";

/** A hundred objects that mean nothing to anybody. */
for (let number = 0; number < 100; number++) {
  new core.v1.ConfigMap(`map-${number}`, {
    metadata: { name: `map-${number}`, namespace: "default" },
    data: { number: String(number) },
  });
}
