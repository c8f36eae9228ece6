// A Node that is too old cannot read TypeScript: "ramet" then stops the program with a clear message.
import "ramet";

export default await import("./index.ts");
