// Package schema checks the arguments of a local tool against its JSON Schema, and makes the command line of its command and them. It
// is pure.
//
// A schema has a subset of JSON Schema's keywords: type, properties, required, enum, items, additionalProperties, minimum, maximum,
// minLength, maxLength, minItems, maxItems, and pattern in the syntax of RE2. Any other keyword is an error, because a schema that isn't
// enforced entirely promises what it doesn't do. Other than in JSON Schema, additionalProperties is false by default. Lengths count code
// points. A pattern may match anywhere in a string.
//
// Without a schema, each {NAME} of the command is a string of at most 4096 bytes, each {NAME*} a list of them, and nothing else is
// accepted.
//
// # Threats
//
// Arguments come from a model. JSON that two readers could understand differently (a key that is given twice, text that isn't UTF-8) is
// rejected; size and depth are bounded. A value never becomes an option of the command: one that begins with "-" needs an element "--"
// before it in the command. A value is one element of the command line, and no shell reads it.
package schema
