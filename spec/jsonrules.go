package spec

import "slices"

// storedWho is the part of a stored declaration that says who may claim.
type storedWho struct {
	Rules     []storedRule     `json:"rules,omitempty"`
	Variables []storedVariable `json:"variables,omitempty"`
	Users     *storedUsers     `json:"users,omitempty"`
	History   *storedHistory   `json:"history,omitempty"`
	Queue     *storedQueue     `json:"queue,omitempty"`
	Draw      *storedDraw      `json:"draw,omitempty"`
}

type storedRule struct {
	Name              string  `json:"name"`
	Require           string  `json:"require"`
	Message           string  `json:"message,omitempty"`
	MessageExpression string  `json:"messageExpression,omitempty"`
	Enforce           Enforce `json:"enforce"`
}

type storedVariable struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

// storedUsers is without the name of the file: a sale that is moved together with its
// files is the same sale.
type storedUsers struct {
	Attributes map[string]string `json:"attributes,omitempty"` // types by name
	File       bool              `json:"file,omitempty"`
	HBase      *storedTable      `json:"hbase,omitempty"`
	FreshMs    int64             `json:"freshMs"`
	Cached     int64             `json:"cached"`
}

// storedHistory is without the names of the files.
type storedHistory struct {
	Files bool         `json:"files,omitempty"`
	HBase *storedTable `json:"hbase,omitempty"`
}

type storedTable struct {
	Zookeeper     []string          `json:"zookeeper"`
	ZookeeperRoot string            `json:"zookeeperRoot"`
	Table         string            `json:"table"`
	Family        string            `json:"family"`
	Columns       map[string]string `json:"columns,omitempty"` // of users, by attribute
}

type storedQueue struct {
	Order    Order  `json:"order"`
	Priority string `json:"priority,omitempty"`
	Depth    int64  `json:"depth"`
}

func (s Sale) storeWho() storedWho {
	var out storedWho
	for _, r := range s.Rules {
		out.Rules = append(out.Rules, storedRule{r.Name, r.Require, r.Message, r.MessageExpression, r.Enforce})
	}
	for _, v := range s.Variables {
		out.Variables = append(out.Variables, storedVariable{v.Name, v.Expression})
	}
	if u := s.Users; u != nil {
		out.Users = &storedUsers{File: u.Table == nil, FreshMs: u.Fresh.Milliseconds(), Cached: u.Cached}
		if len(u.Attributes) > 0 {
			out.Users.Attributes = map[string]string{}
		}
		for _, a := range u.Attributes {
			out.Users.Attributes[a.Name] = a.Type
		}
		if t := u.Table; t != nil {
			out.Users.HBase = &storedTable{t.Zookeeper, t.ZookeeperRoot, t.Table, t.Family, t.Columns}
		}
	}
	if h := s.History; h != nil {
		out.History = &storedHistory{Files: h.Files != nil}
		if t := h.Table; t != nil {
			out.History.HBase = &storedTable{t.Zookeeper, t.ZookeeperRoot, t.Table, t.Family, nil}
		}
	}
	if q := s.Queue; q != nil {
		out.Queue = &storedQueue{q.Order, q.Priority, q.Depth}
	}
	out.Draw = s.Draw.stored()
	return out
}

func (in storedWho) read(s *Sale) {
	for _, r := range in.Rules {
		s.Rules = append(s.Rules, Rule{Name: r.Name, Require: r.Require, Message: r.Message, MessageExpression: r.MessageExpression, Enforce: r.Enforce})
	}
	for _, v := range in.Variables {
		s.Variables = append(s.Variables, Variable{Name: v.Name, Expression: v.Expression})
	}
	if u := in.Users; u != nil {
		s.Users = &Users{Fresh: milliseconds(u.FreshMs), Cached: u.Cached}
		for name, kind := range u.Attributes {
			s.Users.Attributes = append(s.Users.Attributes, Attribute{name, kind})
		}
		slices.SortFunc(s.Users.Attributes, byName)
		if t := u.HBase; t != nil {
			s.Users.Table = &UsersTable{t.Zookeeper, t.ZookeeperRoot, t.Table, t.Family, t.Columns}
		}
	}
	if h := in.History; h != nil {
		s.History = new(History)
		if h.Files {
			s.History.Files = []string{}
		}
		if t := h.HBase; t != nil {
			s.History.Table = &HistoryTable{t.Zookeeper, t.ZookeeperRoot, t.Table, t.Family}
		}
	}
	if q := in.Queue; q != nil {
		s.Queue = &Queue{Order: q.Order, Priority: q.Priority, Depth: q.Depth}
	}
	s.Draw = in.Draw.read()
}
