package api

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// words are the outcomes that outcome.go declares.
func words(t *testing.T) []Outcome {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "outcome.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []Outcome
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := v.Type.(*ast.Ident); ok && kind.Name == "Outcome" {
			word, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, Outcome(word))
		}
		return true
	})
	return all
}

// Each outcome has one row, and each row an outcome.
func TestEachOutcomeHasItsRow(t *testing.T) {
	declared := slices.DeleteFunc(words(t), func(o Outcome) bool { return o == Replayed })
	rows := map[Outcome]int{}
	for _, row := range Outcomes() {
		rows[row.Outcome]++
		if !slices.Contains(declared, row.Outcome) {
			t.Errorf("the row of %q is of no outcome", row.Outcome)
		}
		if row.Outcome.Row() != row {
			t.Errorf("%q has the row %+v, and the table %+v", row.Outcome, row.Outcome.Row(), row)
		}
	}
	for _, o := range declared {
		if rows[o] != 1 {
			t.Errorf("%q has %d rows in the table", o, rows[o])
		}
	}
}

var joined = regexp.MustCompile(`[.:;,][A-Za-z]`)

// A row does not contradict itself.
func TestRowsMakeSense(t *testing.T) {
	for _, row := range Outcomes() {
		asksBack := row.Status == http.StatusTooManyRequests || row.Status == http.StatusServiceUnavailable
		switch {
		case row.Outcome.Accepted() != (row.Status == http.StatusCreated) || (row.Outcome.Accepted() || row.Outcome == Returned) != (row.Exit == ExitOK):
			t.Errorf("%q is accepted with status %d and exit code %d", row.Outcome, row.Status, row.Exit)
		case row.Outcome.Accepted() == (row.Title != "" && row.Detail != ""):
			t.Errorf("%q has the problem %q: %q", row.Outcome, row.Title, row.Detail)
		case joined.MatchString(row.Detail):
			t.Errorf("%q lacks a blank between two sentences: %q", row.Outcome, row.Detail)
		case (row.Retry == Again) != asksBack || (row.Retry == Again) != (row.Exit == ExitTimeout):
			t.Errorf("%q is to be retried %v, with status %d and exit code %d", row.Outcome, row.Retry, row.Status, row.Exit)
		case row.Retry != Final && row.RetryAfter == 0:
			t.Errorf("%q is to be retried %v, at once", row.Outcome, row.Retry)
		case row.Decides && row.Retry == Again:
			t.Errorf("%q decides, and is to be retried %v", row.Outcome, row.Retry)
		}
	}
	lost := Outcome("lost_in_space").Row()
	if lost.Status != 500 || lost.Exit != ExitError || lost.Retry != Final || lost.Decides || lost.Title == "" {
		t.Errorf("a word that nobody knows has the row %+v", lost)
	}
}

var inQuotes = regexp.MustCompile("`([a-z_]+)`")

// The table for readers has the same of each outcome as the table here. It stands in
// one of the documents, under a head that begins with "| outcome | status |".
func TestDocumentsHaveTheTable(t *testing.T) {
	var lines []string
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, after, found := strings.Cut(string(text), "\n| outcome | status |"); found {
			table, _, _ := strings.Cut(after, "\n\n")
			lines = append(lines, strings.Split(table, "\n")[2:]...)
		}
	}
	rows := map[Outcome]int{}
	for _, line := range lines {
		cells := strings.Split(line, "|")
		for _, word := range inQuotes.FindAllStringSubmatch(cells[1], -1) {
			row := Outcome(word[1]).Row()
			rows[row.Outcome]++
			if !strings.Contains(cells[2], fmt.Sprint(row.Status)) || strings.TrimSpace(cells[3]) != fmt.Sprint(row.Exit) {
				t.Errorf("the documents have %q, and the status is %d, the exit code %d", line, row.Status, row.Exit)
			}
			if strings.TrimSpace(cells[4]) != row.Retry.String() {
				t.Errorf("the documents have %q, and the same request is to be retried %v", line, row.Retry)
			}
		}
	}
	for _, row := range Outcomes() {
		if rows[row.Outcome] != 1 {
			t.Errorf("the documents' table has %q %d times", row.Outcome, rows[row.Outcome])
		}
		delete(rows, row.Outcome)
	}
	for word := range rows {
		t.Errorf("the documents' table has %q, which is no outcome", word)
	}
}

// Only answers that invite a retry have its time.
func TestRetryAfterOfOutcomes(t *testing.T) {
	for _, row := range Outcomes() {
		if has := row.RetryAfter > 0; has != (row.Retry != Final) {
			t.Errorf("%s is %v, and Retry-After %v", row.Outcome, row.Retry, row.RetryAfter)
		}
	}
}
