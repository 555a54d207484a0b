package process

import (
	"context"
	"fmt"
	"testing"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"salectl/backends/clock"
	"salectl/executor/request"
	"salectl/rules"
	"salectl/spec"
)

// BenchmarkRules decides by a rule of five attributes on users that are cached. Beside it
// cel-go alone evaluates the same expression, of values in maps and with no limit of costs.
func BenchmarkRules(b *testing.B) {
	const require = `user.level >= 2 && user.age >= 18 && !user.banned && user.score > 0.5 && user.since < now - duration("720h")`
	sale := spec.Sale{
		Name: "bench", Stock: 1000, PerUserLimit: 10,
		Users: &spec.Users{Attributes: []spec.Attribute{
			{Name: "age", Type: spec.TypeInt}, {Name: "banned", Type: "bool"}, {Name: "level", Type: spec.TypeInt},
			{Name: "score", Type: "double"}, {Name: "since", Type: "timestamp"},
		}},
		Rules: []spec.Rule{{Name: "all", Enforce: spec.EnforceDeny,
			Require: require}},
	}
	schema := rules.SchemaFor(sale)
	source := sourceFunc(func(ids []string) (all []rules.Attributes) {
		for _, id := range ids {
			u := schema.Known(id, []rules.Value{types.Int(30), types.Bool(false), types.Int(3), types.Double(0.9),
				types.Timestamp{Time: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}})
			all = append(all, u)
		}
		return all
	})
	cache, err := rules.NewCache(rules.CacheConfig{Source: source, Clock: clock.System(), Fresh: time.Hour, Timeout: time.Second, Entries: 1 << 16, Batch: 1000})
	if err != nil {
		b.Fatal(err)
	}
	hash, _ := rules.HashFor(sale)
	compiled, err := rules.ForSale(sale)
	if err != nil {
		b.Fatal(err)
	}
	e := &eligibility{hash: string(hash[:]), sale: &sale, compile: func() (*rules.Set, error) { return compiled, nil },
		users: &userSource{Users: cache}}
	now := clock.System()
	users := make([]string, 1<<12)
	for i := range users {
		users[i] = fmt.Sprintf("user-%011d", i)
	}
	b.Run("decide", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if by, a := e.decide(b.Context(), now(), &request.Request{User: users[i%len(users)], Key: "k", Quantity: 1}); by == nil {
				b.Fatal(a)
			}
			i++
		}
	})
	b.Run("cel", func(b *testing.B) {
		program := bareCEL(b, require)
		user := map[string]any{"age": 30, "banned": false, "level": 3, "score": 0.9, "since": time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}
		b.ReportAllocs()
		for b.Loop() {
			val, _, err := program.Eval(map[string]any{"user": user, "now": now().Wall})
			if err != nil || val != types.True {
				b.Fatal(val, err)
			}
		}
	})
}

// bareCEL is an expression about a user and the time, as cel-go's own pages compile it.
func bareCEL(b *testing.B, text string) cel.Program {
	b.Helper()
	env, err := cel.NewEnv(cel.Variable("user", cel.MapType(cel.StringType, cel.DynType)), cel.Variable("now", cel.TimestampType))
	if err != nil {
		b.Fatal(err)
	}
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		b.Fatal(issues.Err())
	}
	program, err := env.Program(checked)
	if err != nil {
		b.Fatal(err)
	}
	return program
}

// sourceFunc is Users.
type sourceFunc func(ids []string) []rules.Attributes

func (f sourceFunc) Lookup(_ context.Context, ids []string) ([]rules.Attributes, error) {
	return f(ids), nil
}
