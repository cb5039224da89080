/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Everything that an application or an element needs to handle CUDA frames. */
#pragma once

#include <gst/cudaframe/gstcudaeventmeta.h>
#include <gst/cudaframe/gstcudaframe-prelude.h>
#include <gst/cudaframe/gstcudaframeallocator.h>
#include <gst/cudaframe/gstcudaframecontext.h>
#include <gst/cudaframe/gstcudaframememory.h>
