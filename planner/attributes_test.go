package planner

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner/plannertest"
	"salectl/spec"
)

// eachSetting calls f for every field of the settings and of the messages in them, but for
// rows, which follow from what units are. in returns the message of settings that has it.
func eachSetting(f func(field protoreflect.FieldDescriptor, in func(*pb.Settings) protoreflect.Message)) {
	var walk func(fields protoreflect.FieldDescriptors, in func(*pb.Settings) protoreflect.Message)
	walk = func(fields protoreflect.FieldDescriptors, in func(*pb.Settings) protoreflect.Message) {
		for i := range fields.Len() {
			switch field := fields.Get(i); {
			case field.Name() == "rows":
			case field.Message() != nil:
				walk(field.Message().Fields(), func(s *pb.Settings) protoreflect.Message { return in(s).Mutable(field).Message() })
				fallthrough
			default:
				f(field, in)
			}
		}
	}
	walk(new(pb.Settings).ProtoReflect().Descriptor().Fields(), func(s *pb.Settings) protoreflect.Message { return s.ProtoReflect() })
}

// optioned are sales that have every option among them; the first has all but those that go
// with no payment, or that exclude each other.
func optioned() []spec.Sale {
	all := plannertest.With(plannertest.Tickets(10), func(s *spec.Sale) {
		s.Description, s.Protect, s.Phase, s.Partial = "Tickets", true, spec.PhaseOpen, true
		s.OpensAt, s.ClosesAt, s.Payment = plannertest.Epoch, plannertest.Epoch.Add(time.Hour), plannertest.Paid()
		s.Payment.Check = &spec.PaymentCheck{URL: "https://pay.example/{claim}", Interval: spec.Duration(time.Second), Timeout: spec.Duration(time.Second),
			Success: "response.body.paid", Failure: "response.body.failed", Payment: "response.body.id", TokenEnv: "TOKEN"}
		s.Payment.Webhook = &spec.PaymentWebhook{SecretsEnv: "SECRETS", Success: "event.paid", Failure: "event.failed", Claim: "event.claim", Payment: "event.id"}
		s.Rules = []spec.Rule{{Name: "some", Require: "variables.some", Message: "No.", MessageExpression: "'No, ' + user.id", Enforce: spec.EnforceDeny}}
		s.Variables = []spec.Variable{{Name: "some", Expression: "user.level != ''"}}
		s.Users = &spec.Users{Attributes: []spec.Attribute{{Name: "level", Type: spec.TypeString}}, Fresh: spec.Duration(time.Second), Cached: 7, Table: &spec.UsersTable{Rows: spec.Rows{Zookeeper: []string{"a:1"}, ZookeeperRoot: "/hbase", Table: "users", Family: "u"}, Columns: map[string]string{"level": "l"}}}
		s.History = &spec.History{Files: []string{"x.ndjson"}, Table: &spec.Rows{Zookeeper: []string{"a:1"}, ZookeeperRoot: "/hbase", Table: "bought", Family: "h"}}
		s.Queue = &spec.Queue{Order: spec.OrderPriority, Priority: "user.level == 'gold' ? 1 : 0", Depth: 9}
		s.Units = &spec.Units{Ranges: []string{"A1-A10"}, Choose: true}
	})
	coded := plannertest.With(plannertest.Tickets(10), func(s *spec.Sale) {
		s.Units = &spec.Units{FromFile: true, Column: "code", KeyEnv: "KEY", Secret: true}
		s.Users = &spec.Users{File: "users.csv", Fresh: spec.Duration(time.Second), Cached: 7}
		s.Homes, s.HBase = nil, &spec.HBase{Zookeeper: []string{"a:1"}, ZookeeperRoot: "/hbase", Table: "sales"}
		s.Redis = &spec.Redis{Nodes: []string{"b:1"}, UsernameEnv: "NAME", PasswordEnv: "PASSWORD", TLS: true}
	})
	drawn := plannertest.With(plannertest.Tickets(10), func(s *spec.Sale) {
		s.Draw = &spec.Draw{KeyEnv: "KEY", Substitutes: 5, Beacon: &spec.Beacon{Name: "drand", Round: "7", Fallback: spec.FallbackNone}}
	})
	lists := plannertest.With(plannertest.Tickets(10), func(s *spec.Sale) {
		s.Engine, s.Ack, s.Backlog = spec.EngineRedis, spec.AckRedis, 5
		s.RedPacket = &spec.RedPacket{Currency: "CNY", Scale: 2, Total: 100, Min: 1, Split: spec.SplitEven}
	})
	return []spec.Sale{all, coded, drawn, lists}
}

// No setting is forgotten: shards are told it if some sale declares it, and where the one in
// force is another than was declared, a plan shows the difference.
func TestEverySettingIsMadeAndShown(t *testing.T) {
	sales := optioned()
	sale := sales[0]
	made := settingsOf(sale, pb.Phase_OPEN)
	shown := func(s *pb.Settings) []Field {
		a := saleAttributes(sale, sale.Stock, "", 1)
		a.inForce(s)
		return a.list()
	}
	// A plan shows the phase by itself, and these as they are declared: they belong to what
	// units are, or stay for the life of a run.
	asDeclared := []protoreflect.Name{"phase", "choose", "secret", "draw"}
	eachSetting(func(field protoreflect.FieldDescriptor, in func(*pb.Settings) protoreflect.Message) {
		if !slices.ContainsFunc(sales, func(s spec.Sale) bool { return in(settingsOf(s, pb.Phase_OPEN)).Has(field) }) {
			t.Errorf("no sale has %s", field.FullName())
		}
		drifted := proto.CloneOf(made)
		in(drifted).Clear(field)
		if !slices.Contains(asDeclared, field.Name()) && slices.Equal(shown(drifted), shown(made)) {
			t.Errorf("a plan does not show that %s is another than was declared", field.FullName())
		}
	})
}

// Shards are told nothing that is not declared.
func TestSettingsOfAPlainSale(t *testing.T) {
	if got, want := settingsOf(plannertest.Tickets(10), pb.Phase_OPEN), (&pb.Settings{PerUserLimit: 2, Phase: pb.Phase_OPEN}); !proto.Equal(got, want) {
		t.Errorf("the settings are %v, want %v", got, want)
	}
	named := plannertest.With(plannertest.Tickets(10), func(s *spec.Sale) { s.Units = &spec.Units{Ranges: []string{"A1-A10"}} })
	if got, want := settingsOf(named, pb.Phase_OPEN), settingsOf(plannertest.Tickets(10), pb.Phase_OPEN); !proto.Equal(got, want) {
		t.Errorf("with units that nobody chooses the settings are %v, want %v", got, want)
	}
}

// No option is forgotten: each attribute of a sale is set for some sale.
func TestEveryOptionIsShown(t *testing.T) {
	notDeclared := []string{
		".Ends", ".UnitsDigest", // of a sale as it is
		".Limit", ".Units", ".Marker", ".List", ".Node", // of a shard or a node
	}
	sales := optioned()
	for _, path := range leaves(reflect.TypeFor[Attributes](), nil) {
		_, name := leaf(reflect.ValueOf(new(Attributes)).Elem(), path)
		shown := slices.ContainsFunc(sales, func(s spec.Sale) bool {
			return has(reflect.ValueOf(saleAttributes(s, s.Stock, ledger.PhaseOpen, 1)), path)
		})
		declared := !slices.ContainsFunc(notDeclared, func(not string) bool { return name == not || strings.HasPrefix(name, not+".") })
		if shown != declared && !strings.HasPrefix(name, homes) {
			t.Errorf("some sale has %s: %v", name, shown)
		}
	}
}

// homes are stores that no document names; their settings are listed.
const homes = ".Sale.Homes."

// has reports whether there is something at the end of a path of fields.
func has(v reflect.Value, path []int) bool {
	switch {
	case v.Kind() == reflect.Pointer:
		return !v.IsNil() && has(v.Elem(), path)
	case len(path) == 0:
		return !v.IsZero()
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			if has(v.Index(i), path) {
				return true
			}
		}
		return false
	}
	return has(v.Field(path[0]), path[1:])
}

// No attribute is forgotten: a plan lists each, also those that are part of another.
func TestEveryAttributeIsListed(t *testing.T) {
	unlisted := []string{
		".CostLimit",                                             // listed with the costs
		".Sale.Name", ".Sale.Rules.Name", ".Sale.Variables.Name", // listed as the address, and as part of others
		".Ends.Claims", ".Ends.Refund.Total", // listed with others only, or not needed beside them
	}
	for _, path := range leaves(reflect.TypeFor[Attributes](), nil) {
		without, with := new(Attributes), new(Attributes)
		leaf(reflect.ValueOf(without).Elem(), path)
		v, name := leaf(reflect.ValueOf(with).Elem(), path)
		switch v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Uint64:
			v.SetUint(1)
		case reflect.Struct:
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
		case reflect.Map:
			m := reflect.MakeMap(v.Type())
			m.SetMapIndex(reflect.ValueOf("x"), reflect.New(v.Type().Elem()).Elem())
			v.Set(m)
		case reflect.Slice:
			v.Set(reflect.ValueOf([]string{"x"}))
		default:
			v.SetInt(1)
		}
		if slices.Equal(with.list(), without.list()) && !slices.Contains(unlisted, name) && !strings.HasPrefix(name, homes) {
			t.Errorf("%s is not listed", name)
		}
	}
}

// leaves are the paths of fields to what is no struct.
func leaves(t reflect.Type, path []int) (all [][]int) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() {
		return [][]int{slices.Clone(path)}
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
			all = append(all, leaves(t.Field(i).Type, append(path, i))...)
		}
	}
	return all
}

// leaf makes all that is on a path of fields, and returns what is at its end and its name.
func leaf(v reflect.Value, path []int) (end reflect.Value, name string) {
	for {
		switch {
		case v.Kind() == reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			v = v.Elem()
		case len(path) == 0:
			return v, name
		case v.Kind() == reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			v = v.Index(0)
		default:
			name += "." + v.Type().Field(path[0]).Name
			v, path = v.Field(path[0]), path[1:]
		}
	}
}

// Of a declaration that this program cannot compile any more, the costs are left out.
func TestRulesOfAnotherVersion(t *testing.T) {
	sale := plannertest.With(plannertest.Choosy(), func(s *spec.Sale) { s.Rules[0].Require = "user.level.later()" })
	a := saleAttributes(sale, sale.Stock, ledger.PhaseOpen, 1)
	if len(a.Costs) != 0 || a.RuleSet == "" {
		t.Errorf("got %+v", a)
	}
	if text := fmt.Sprint(a.list()); !strings.Contains(text, "{rules[members].require  user.level.later()}") {
		t.Errorf("got %s", text)
	}
}

// A change of phase keeps every field of the settings, whichever there are.
func TestPhasesKeepTheSettings(t *testing.T) {
	before := new(pb.Settings)
	fill(before.ProtoReflect())
	kept := proto.CloneOf(before)
	after := withPhase(before, pb.Phase_CLOSED)
	if !proto.Equal(before, kept) || after.GetPhase() != pb.Phase_CLOSED {
		t.Errorf("%v becomes %v, and was %v", before, after, kept)
	}
	if kept.Phase = pb.Phase_CLOSED; !proto.Equal(after, kept) {
		t.Errorf("got %v, want %v", after, kept)
	}
}

// fill sets every field of a message to something that is not its default.
func fill(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.IsList() {
			fill(m.Mutable(f).List().AppendMutable().Message())
			continue
		}
		switch f.Kind() {
		case protoreflect.MessageKind:
			fill(m.Mutable(f).Message())
		case protoreflect.EnumKind:
			m.Set(f, protoreflect.ValueOfEnum(1))
		case protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		case protoreflect.BytesKind:
			m.Set(f, protoreflect.ValueOfBytes([]byte{1}))
		default:
			m.Set(f, protoreflect.ValueOfInt64(int64(i)+1))
		}
	}
}
