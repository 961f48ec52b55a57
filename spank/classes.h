#ifndef GRESNET_CLASSES_H
#define GRESNET_CLASSES_H

#include <stdint.h>

/* classes_cover has /sys/class/infiniband and its like list the HCAs alone whose devices are in
 * /dev/infiniband. It returns -1 with the reason logged. */
int classes_cover(uint32_t job);

#endif
