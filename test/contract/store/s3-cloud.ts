import { startS3Server } from "../../setup/s3-server.ts";
import type { CloudUnderTest } from "./cloud-under-test.ts";

export const s3Cloud: CloudUnderTest = {
  name: "S3",
  start: startS3Server,
  elsewhere: (location) => ({ ...location, bucket: "nowhere" }),
  noBucket: "NoSuchBucket",
  permission: "s3:PutObject",
  unknownKey: { variable: "AWS_SECRET_ACCESS_KEY", value: "another" },
  signature: "X-Amz-Signature=",
  secrets: /X-Amz|Signature=|a-secret/,
};
