package page

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRenew(t *testing.T) {
	path, made := filepath.Join(t.TempDir(), "benchmarks.md"), By("go run ./callers")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	others := By("go run ./others")
	write("# Before\n" + others.Begins + "theirs\n" + others.Ends + made.Begins + "old\n" + made.Ends + "After\n")
	if err := made.Renew(path, "new\n"); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if want := "# Before\n" + others.Begins + "theirs\n" + others.Ends + made.Begins + "new\n" + made.Ends + "After\n"; err != nil || string(page) != want {
		t.Errorf("got %q, %v, want %q", page, err, want)
	}
	for _, page := range []string{"# Before\n" + made.Begins + "old\n", "# Before\n" + made.Ends + made.Begins, ""} {
		write(page)
		if err := made.Renew(path, "new\n"); err == nil {
			t.Errorf("of the page %q nobody knows where the text belongs", page)
		}
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0.012345: "0.012", 987.6: "990", 1234.5: "1,200", 1_050_001: "1,100,000"} {
		if got := Grouped(Rounded(v, 2)); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}
