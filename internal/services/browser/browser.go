// Package browser gives tests a real browser without a window. It is for tests alone.
package browser

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"salectl/internal/services"
	"salectl/internal/wait"
)

// Start starts a browser, for which every name under .example ends at this machine, and
// opens a page in it. The browser ends with the test, which is skipped where there is none
// (see services.Require).
func Start(t testing.TB, options ...chromedp.ContextOption) context.Context {
	t.Helper()
	path, err := services.Chromium()
	services.Require(t, err)
	browser, end := chromedp.NewContext(context.Background(), append(options, chromedp.WithAllocatorOptions(
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("no-sandbox", true), // not every container lets it make one, and it visits nobody else
		chromedp.Flag("host-resolver-rules", "MAP *.example 127.0.0.1"),
	))...)
	t.Cleanup(func() {
		if err := chromedp.Cancel(browser); err != nil { // waits until it is gone
			t.Error(err)
		}
		end()
	})
	if err := chromedp.Do(browser); err != nil { // the browser lives as long as the first context
		t.Fatal(err)
	}
	return browser
}

// patience is how long a browser may take for one thing.
const patience = 30 * time.Second

// Go opens an address.
func Go(t testing.TB, browser context.Context, address string) {
	t.Helper()
	bound, cancel := context.WithTimeout(browser, patience)
	defer cancel()
	if err := chromedp.Do(bound, chromedp.Navigate(address)); err != nil {
		t.Fatalf("go to %s: %v", address, err)
	}
}

// Run runs a script in the page and returns what it comes to, as text: of a promise its
// result, and behind "threw " what it throws.
func Run(t testing.TB, browser context.Context, script string) string {
	t.Helper()
	bound, cancel := context.WithTimeout(browser, patience)
	defer cancel()
	whole := fmt.Sprintf(`(async () => { try { return String(await (%s)) } catch (e) { return "threw " + e } })()`, script)
	result, err := chromedp.Run(bound, chromedp.Evaluate[string](whole, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return result
}

// Until waits until a script comes to true.
func Until(t testing.TB, browser context.Context, script string) {
	t.Helper()
	err := wait.Poll(wait.Limit, func() error {
		if got := Run(t, browser, script); got != "true" {
			return fmt.Errorf("%s is still %s", script, got)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v; the page shows: %s", err, Run(t, browser, "document.body.innerText"))
	}
}

// Press presses keys, which kb names, one after the other.
func Press(t testing.TB, browser context.Context, keys string) {
	t.Helper()
	if err := chromedp.Do(browser, chromedp.KeyEvent(keys)); err != nil {
		t.Fatal(err)
	}
}

// Prefer sets what the page learns of its reader's preferences, such as
// prefers-color-scheme.
func Prefer(t testing.TB, browser context.Context, feature, value string) {
	t.Helper()
	_, err := chromedp.Call(browser, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: feature, Value: value}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Zone sets the time zone of the page's reader, such as Asia/Shanghai.
func Zone(t testing.TB, browser context.Context, name string) {
	t.Helper()
	_, err := chromedp.Call(browser, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: name})
	if err != nil {
		t.Fatal(err)
	}
}

// Width makes the page so wide, and as high as most screens are.
func Width(t testing.TB, browser context.Context, width int64) {
	t.Helper()
	if err := chromedp.Do(browser, chromedp.EmulateViewport(width, 900)); err != nil {
		t.Fatal(err)
	}
}

// Shoot writes a picture of the whole page among the test's artifacts, if go test is to
// keep them (-artifacts).
func Shoot(t testing.TB, browser context.Context, name string) {
	t.Helper()
	if kept := flag.Lookup("test.artifacts"); kept == nil || kept.Value.String() != "true" {
		return
	}
	picture, err := chromedp.Run(browser, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.ArtifactDir(), name+".png")
	if err := os.WriteFile(file, picture, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d KiB in %s", len(picture)>>10, file)
}
