package spec

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/invopop/jsonschema"
)

// form is a form of text, list or mapping: what the JSON Schema requires, and how the decoder
// reads it. Without read, the check of the block reads the value, since it depends on others.
type form struct {
	schema func(*jsonschema.Schema)
	read   func(d *decoder, v value, o *option) (any, bool)
	check  func(string) *fault // of a stored declaration, too; nil: none
}

// forms are the forms of options by name. The decoder refers to them, and they to it.
var forms map[string]form

func init() {
	forms = map[string]form{
		"name": matching(nameForm, "is no DNS label",
			"Use lower-case letters, digits and, between them, hyphens; at most 63 in all."),
		"identifier": {identifier, text("", checkIdentifier).read, checkIdentifier},
		"znode":      matching(znodeForm, "is no path of a znode", "Write an absolute path, such as /hbase."),
		"family": matching(familyForm, "is no column family that HBase takes",
			"Use letters, digits, and _ . - behind the first."),
		"url":    {pattern(checkURLForm), (*decoder).url, checkCheckURL},
		"table":  {pattern(tableForm), (*decoder).table, nil},
		"env":    {pattern(envForm), (*decoder).env, nil},
		"text":   {pattern(notBlank), (*decoder).prose, nil},
		"line":   {pattern(`^[^\r\n]*[^ \t\r\n][ \t\r\n]*$`), (*decoder).line, nil},
		"cel":    {pattern(""), (*decoder).expression, nil},
		"folder": {func(s *jsonschema.Schema) { s.MinLength = new(uint64(1)) }, path("folder", checkNothing), nil},
		"codes":  {pattern(notBlank), path("file", checkNothing), nil},
		"users": {pattern(usersFileForm), path("file", matches(usersFileForm, "does not show the format of the file",
			"Name it .csv for CSV with a header, or .ndjson for one JSON object a line.")), nil},
		"key":         {pattern(notBlank), (*decoder).keyFile, nil},
		"column":      text(notBlank, checkColumn("Write a name of the file's header.")),
		"beacon":      text(notBlank, checkBeacon),
		"round":       {roundSchema, (*decoder).round, checkBeacon},
		"amount":      {pattern(amountForm), nil, nil},
		"currency":    {pattern("^[A-Z]{3}$"), nil, nil},
		"environment": {func(s *jsonschema.Schema) { s.UniqueItems, s.Items.Pattern = true, envForm }, (*decoder).declaredVariables, nil},
		"addresses":   {addressList, (*decoder).addresses, nil},
		"patterns":    {pattern(""), (*decoder).patterns, nil},
		"ranges":      {rangeSchema, (*decoder).ranges, nil},
		"attributes":  {attributeSchema, (*decoder).attributes, nil},
		"columns":     {func(s *jsonschema.Schema) { s.AdditionalProperties.Pattern = "[^ ]" }, nil, nil},
		"labels":      {labelSchema(labelValueForm), (*decoder).labels, nil},
		"annotations": {labelSchema(""), (*decoder).annotations, nil},
	}
}

// notBlank is the form of text that is not blank.
const notBlank = `[^ \t\r\n]`

// text is the form of text for which check returns nil.
func text(of string, check func(string) *fault) form {
	return form{pattern(of), func(d *decoder, v value, o *option) (any, bool) {
		return checked(d, v, o.example, check)
	}, check}
}

// matching is the form of text that matches a regular expression.
func matching(of, message, remedy string) form { return text(of, matches(of, message, remedy)) }

// matches returns the check of text that must match a regular expression.
func matches(of, message, remedy string) func(string) *fault {
	re := regexp.MustCompile(of)
	return func(text string) *fault {
		if re.MatchString(text) {
			return nil
		}
		return &fault{message, remedy}
	}
}

// path reads the path of a file or folder, relative to the document.
func path(what string, check func(string) *fault) func(*decoder, value, *option) (any, bool) {
	return func(d *decoder, v value, o *option) (any, bool) {
		path, ok := d.file(v, what, o.example, check)
		return d.src.resolve(path), ok
	}
}

func checkNothing(string) *fault { return nil }

// line decodes one line of text, of at most max characters. Trailing blanks are removed, such as
// the line end of a block.
func (d *decoder) line(v value, o *option) (any, bool) {
	text, ok := d.text(v, o.example)
	if !ok {
		return nil, false
	}
	text = strings.TrimRight(text, " \t\r\n")
	switch length := int64(utf8.RuneCountInString(text)); {
	case text == "":
		d.refuse(v.at, fmt.Sprintf("Write text, such as %s: %s, or leave the key out.", v.key, o.example), "%s is blank", v.path)
	case length > o.most:
		d.refuse(v.at, "Shorten it; annotations take longer texts.", "%s has %d characters, at most %d are allowed", v.path, length, o.most)
	case strings.ContainsFunc(text, unicode.IsControl):
		d.refuse(v.at, "Write one line; annotations take longer texts.", "%s has a line break or another control character in it", v.path)
	default:
		return text, true
	}
	return nil, false
}

func pattern(form string) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) { s.Pattern = form }
}
