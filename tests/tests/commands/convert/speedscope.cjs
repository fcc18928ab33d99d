// Reads a trace with speedscope's own importer and prints what it found, as JSON:
//
//     node speedscope.cjs FOLDER TRACE.json
//
// FOLDER is where npm installed speedscope. Its importer is only there as a part of the page's
// one script, so that script is run without a page: it defines everything and then fails for want
// of a document. A function put at its beginning hands the importer out.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [folder, trace] = process.argv.slice(2);
const release = path.join(folder, "node_modules/speedscope/dist/release");
const script = fs.readdirSync(release).find((name) => /^speedscope-.*\.js$/.test(name));
const source = fs.readFileSync(path.join(release, script), "utf8");

function find(pattern, what) {
  const found = source.match(pattern);
  if (!found) throw new Error(`this version of speedscope has no ${what} where it was`);
  return found[1];
}

// The function that takes over for this format, and the one that sets its module up.
const importer = find(/Importing as Trace Event Format profile"\),([\w$]+)\(/, "importer");
const escaped = importer.replace(/\$/g, "\\$");
const module_ = find(
  new RegExp(`function ${escaped}\\([^)]*\\)\\{[^}]*\\}var (?:[\\w$]+,)*([\\w$]+)=`),
  "module of the importer",
);
const opening = find(/^([\s\S]*?\(\(\)=>\{)/, "beginning");

const said = [];
const quiet = { log: (text) => said.push(text), warn: (text) => said.push(text), error: () => {} };
const context = vm.createContext({ console: quiet, TextDecoder, TextEncoder, URL });
vm.runInContext("globalThis.window = globalThis.self = globalThis", context);
const hook = `globalThis.importTrace = (trace) => (${module_}(), ${importer}(trace));`;
try {
  vm.runInContext(opening + hook + source.slice(opening.length), context);
} catch {
  // No document, as expected.
}

context.text = fs.readFileSync(trace, "utf8");
const group = vm.runInContext("importTrace(JSON.parse(text))", context);
const profiles = group.profiles.map((profile) => {
  const frames = {};
  profile.forEachFrame((frame) => (frames[frame.name] = frame.getTotalWeight()));
  return { name: profile.getName(), unit: profile.getWeightUnit(), total: profile.getTotalWeight(), frames };
});
process.stdout.write(JSON.stringify({ profiles, said }));
