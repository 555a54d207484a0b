package spec

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// What tools write that is no mistake is read, and a mistake on the same line is found where it
// stands.
func TestDocumentsOfTools(t *testing.T) {
	const mark = "\ufeff"
	sale := func(name string) string {
		return "apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: " + name + "}\nspec:\n  stock: 10\n  lockCount: 2\n  embedded: {}\n"
	}
	place := func(text, of string) string {
		before, _, _ := strings.Cut(text, of)
		line := strings.Count(before, "\n") + 1
		return fmt.Sprintf("f.yaml:%d:%d: ", line, utf8.RuneCountInString(before[strings.LastIndex(before, "\n")+1:])+1)
	}
	// As json_encode of PHP writes it: \/ for a slash, and an emoji as two escapes.
	php := `{"apiVersion":"salectl\/v1","kind":"Sale","metadata":{"name":"a","annotations":{"note":"\ud83d\ude00 \\\/ \u00e9"}},"spec":{"stock":3,"lockCount":1,"embedded":{}}}`
	wrong := strings.Replace(php, `"stock":3`, `"é":"\/","stock":"x"`, 1)
	lines := strings.NewReplacer(`,`, ",\n\t", `"\/"`, `"\/\/"`).Replace(wrong)
	for name, c := range map[string]struct {
		text string
		want []string // sales, or one problem
	}{
		"empty documents of helm":    {"---\n# Source: a\n---\n# Source: b\n" + sale("a") + "---\n", []string{"a"}},
		"marks before documents":     {mark + sale("a") + "---\n" + mark + sale("b") + mark + "---\n" + sale("c"), []string{"a", "b", "c"}},
		"a mark within a document":   {strings.Replace(sale("a"), "kind", mark+"kind", 1), []string{"f.yaml:2:1: this is a byte order mark in the middle of the file"}},
		"YAML 1.2":                   {"%YAML 1.2\n---\n" + sale("a") + "...\n%YAML 1.2 # again\r\n---\n" + sale("b"), []string{"a", "b"}},
		"YAML 2.0":                   {"%YAML 2.0\n---\n" + sale("a"), []string{"f.yaml:1:9: this is not YAML: found incompatible YAML document"}},
		"JSON of PHP":                {php, []string{"a"}},
		"JSON of PHP, and a mistake": {wrong, []string{place(wrong, `"é"`) + `spec has no key "é"`, place(wrong, `"x"`) + "spec.stock is text, not a number"}},
		"the same, on lines":         {lines, []string{place(lines, `"é"`) + `spec has no key "é"`, place(lines, `"x"`) + "spec.stock is text, not a number"}},
		"an escape of YAML":          {strings.Replace(sale("a"), "salectl/v1", `"salectl\/v1"`, 1), []string{"f.yaml:1:21: this escape is unknown in double quotes"}},
		"a no-break space":           {strings.Replace(sale("a"), "stock: ", "stock:\u00a0 ", 1), []string{"f.yaml:5:9: this is a space that YAML does not accept, such as a no-break space"}},
		"one to indent":              {strings.Replace(sale("a"), "  stock", " \u00a0stock", 1), []string{"f.yaml:5:2: this is a space that YAML does not accept, such as a no-break space"}},
		"one in text, and a mistake": {strings.Replace(sale("a"), "metadata: {", "metadata: {annotations: {note: 'prix:\u00a05'}, ", 1) + "x: y: z\n",
			[]string{"f.yaml:8:5: a key with a colon cannot stand here"}},
	} {
		dir := write(t, map[string]string{"f.yaml": c.text})
		t.Chdir(dir)
		sales, _, err := Load([]string{"f.yaml"}, nil)
		got := messages(err)
		for _, s := range sales {
			got = append(got, s.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	sales, _, err := Load([]string{"-"}, strings.NewReader(php))
	if err != nil || sales[0].Annotations["note"] != `😀 \/ é` {
		t.Errorf("%v, %v", sales, err)
	}
}
