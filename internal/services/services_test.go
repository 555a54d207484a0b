package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// parentOfRedis makes the test binary start a redis-server, print its pid and
// address, and wait to be killed.
const parentOfRedis = "SALECTL_TEST_PARENT_OF_REDIS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentOfRedis); dir != "" {
		beParent(dir)
	}
	goleak.VerifyTestMain(m)
}

func beParent(dir string) {
	r, err := StartRedis(context.Background(), RedisOptions{Dir: dir})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(r.run.process.Pid)
	<-r.run.ended
}

// recorder is a test that only notes how it was ended.
type recorder struct {
	testing.TB
	skipped, failed bool
}

func (r *recorder) Helper()      {}
func (r *recorder) Skip(...any)  { r.skipped = true }
func (r *recorder) Fatal(...any) { r.failed = true }

func TestRequire(t *testing.T) {
	missing := fmt.Errorf("redis-server is %w", ErrMissing)
	for name, c := range map[string]struct {
		ci   string
		err  error
		want recorder
	}{
		"started":                 {"", nil, recorder{}},
		"started in CI":           {"true", nil, recorder{}},
		"not installed":           {"", missing, recorder{skipped: true}},
		"not installed, CI=false": {"false", missing, recorder{skipped: true}},
		"not installed in CI":     {"true", missing, recorder{failed: true}},
		"did not start":           {"", errors.New("died"), recorder{failed: true}},
		"did not start in CI":     {"true", errors.New("died"), recorder{failed: true}},
	} {
		t.Setenv("CI", c.ci)
		got := recorder{}
		Require(&got, c.err)
		if got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
