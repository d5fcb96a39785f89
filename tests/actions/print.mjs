// Prints errors as workflow commands, as @actions/core does: a JSON list of titles and texts on standard input.
import * as core from "@actions/core";
import { readFileSync } from "node:fs";

for (const { title, text } of JSON.parse(readFileSync(0, "utf8"))) {
    core.error(text, { title });
}
