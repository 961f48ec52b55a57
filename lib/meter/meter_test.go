package meter_test

import (
	"testing"
	"time"

	"gresnet/lib/meter"
)

func TestAMeterAddsUpWhatItIsToldOf(t *testing.T) {
	m := new(meter.Meter)
	m.Request()()
	before := m.Read()
	end := m.Request()
	const pause = 5 * time.Millisecond
	<-time.After(pause)
	end()
	if got := m.Since(before); got.Requests != 1 || got.Kernel < pause {
		t.Errorf("%+v, wanted one request of at least %s", got, pause)
	}
	if before.Requests != 1 || m.Read().Requests != 2 {
		t.Errorf("%+v, then %+v, wanted one request, then two", before, m.Read())
	}
}

func TestWithoutAMeterNothingIsCounted(t *testing.T) {
	var m *meter.Meter
	m.Request()()
	if got := m.Since(m.Read()); got != (meter.Reading{}) {
		t.Errorf("%+v, wanted nothing", got)
	}
}
